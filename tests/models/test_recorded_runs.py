"""Runs of models of the package take the times that were recorded, to the picosecond."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from syncline.core import _core
from syncline.engine import completing
from syncline.experiment import load

EXPERIMENT = """\
name: recorded
topology: "Ring(4, rate=100GB/s, latency=500ns)"
workload: {{model: {model}, batch: 32, element: 2B, kernels: {kernels}}}
collective: {{chunk: {chunk}, inflight: 16}}
endpoint: {{kind: ideal}}
network: analytical
"""

CHUNKS = {"alexnet": "128KiB", "vgg16": "256KiB"}
"""Chunks of models with large layers; those of others have 64 KiB."""
RECORDED = {
    # Total and compute time in picoseconds, when the engine still built these models itself.
    ("alexnet", "all"): (4_939_907_483, 4_936_202_179),
    ("alexnet", "weighted"): (4_177_409_785, 4_173_704_481),
    ("vgg16", "all"): (73_223_419_524, 73_220_359_340),
    ("vgg16", "weighted"): (54_532_347_522, 54_529_287_338),
    ("resnet18", "all"): (11_753_401_281, 11_750_108_777),
    ("resnet18", "weighted"): (6_132_974_781, 6_129_682_277),
    ("resnet50", "all"): (40_700_877_553, 40_697_585_049),
    ("resnet50", "weighted"): (16_012_242_151, 16_008_949_647),
    ("gnmt", "all"): (39_998_593_353, 39_495_173_276),
    ("gnmt", "weighted"): (36_545_671_471, 36_042_251_394),
    ("dlrm", "all"): (2_193_745_221, 2_193_745_221),
    ("dlrm", "weighted"): (2_340_302_063, 2_170_989_661),
}


@pytest.mark.parametrize(("model", "kernels"), RECORDED)
def test_times_are_as_recorded(model: str, kernels: str, tmp_path: Path) -> None:
    path = tmp_path / "recorded.yaml"
    path.write_text(EXPERIMENT.format(model=model, kernels=kernels, chunk=CHUNKS.get(model, "64KiB")))
    (variant,) = load.load_file(path, path.name).variants
    summary = json.loads(_core.run(json.dumps(completing.specification(variant.experiment)))["summary"])
    assert (summary["total_ps"], summary["compute_ps"]) == RECORDED[model, kernels]
