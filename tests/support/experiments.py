"""Experiment files for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from syncline.base import document
from syncline.base.errors import InputError
from syncline.experiment.load import Study, load
from syncline.experiment.merge import parse_override

SMALL_GPT: Final[dict[str, Any]] = {
    "name": "gpt",
    "topology": "dgx-a100(nodes=1)",
    "workload": {
        "model": "gpt2",
        "parameters": {"layers": 2, "hidden": 256, "heads": 4, "vocabulary": 1024, "positions": 128},
        "global_batch": 8,
    },
}
"""A GPT of two layers on eight GPUs, to be divided."""
SMALL = """\
name: small
topology: Ring(4)_Ring(2)
workload: {model: resnet50, batch: 32}
"""

THREE_SYSTEMS = """\
name: three
topology: Ring(4)
workload: {model: resnet50, batch: 32}
collective: {algorithm: ace-4-phase, chunk: 64KiB}
variants:
  - name: SMs
    endpoint: {kind: baseline, comm_memory_bandwidth: 450GB/s, comm_sms: 6}
  - name: Engine
    endpoint: {kind: ace, comm_memory_bandwidth: 128GB/s}
  - name: Ideal
    endpoint: ideal
"""


def study(text: str, *settings: str) -> Study:
    """The study that a text describes."""
    overrides = [parse_override(setting) for setting in settings]
    return load(document.read(text, "file.yaml"), "file.yaml", Path(), overrides)


def complaints(text: str, *settings: str) -> str:
    """Everything that is wrong with a text, as a person is told."""
    try:
        study(text, *settings)
    except InputError as error:
        return error.as_text()
    return "nothing is wrong"
