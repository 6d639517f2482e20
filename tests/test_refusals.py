"""What the engine refuses, in the fields of an experiment, whatever its words."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from support import fake_core
from support.experiments import study
from syncline.base.errors import InputError
from syncline.base.section import ModelSection
from syncline.engine import refusals
from syncline.engine import runs as engine
from syncline.sections.endpoints import ENDPOINTS
from syncline.sections.experiment import Experiment
from syncline.sections.networks import NETWORKS

SECTIONS: tuple[type[ModelSection], ...] = (*ENDPOINTS.values(), *NETWORKS.values())
HEAD = "name: a\nworkload: {collective: all-reduce, size: 1MB}\n"
TORUS = 'topology: "Torus(3,2)"\n'
ACE = "endpoint: {kind: ace, comm_memory_bandwidth: 128GB/s"
REFUSED = {
    "endpoint.sram": f"{HEAD}{TORUS}{ACE}, sram: 20kB}}\n",
    "endpoint.fsms": f"{HEAD}{TORUS}{ACE}, fsms: 1}}\n",
    "endpoint.transit": (
        'name: a\nworkload: {collective: all-to-all, size: 1MB}\ntopology: "Ring(5)_Switch(4)"\n'
        "endpoint: {kind: ideal, transit: endpoint}\ncollective: {algorithm: direct}\n"
    ),
    "endpoint.kind": f"{HEAD}{TORUS}endpoint: {{kind: switch-offload, comm_memory_bandwidth: 128GB/s}}\n",
    "network.buffer": f"{HEAD}{TORUS}{ACE}}}\nnetwork: {{backend: packet, buffer: 512B}}\n",
    "groups": f"{HEAD}{TORUS}{ACE}}}\ngroups: 0,2\n".replace("Torus(3,2)", "Torus(4,2)"),
    "fold": f"{HEAD}{TORUS}fold: on\ncollective: {{algorithm: ring}}\n".replace("all-reduce", "broadcast"),
    "collective.algorithm": f"{HEAD}{TORUS}collective: {{algorithm: in-switch}}\n",
    "collective.per_dimension": f"{HEAD}{TORUS}collective: {{per_dimension: [ring]}}\n",
    "workload.collective": f"{HEAD}{TORUS}{ACE}}}\ncollective: {{algorithm: hierarchical}}\n".replace(
        "all-reduce", "broadcast"
    ),
    "workload.root": f"{HEAD}{TORUS}".replace("1MB}", "1MB, root: 6}").replace("all-reduce", "reduce"),
}
"""Experiments that the schema takes, and the field that the engine refuses."""


@pytest.mark.parametrize("field", REFUSED)
def test_the_field_to_blame(field: str) -> None:
    with pytest.raises(InputError) as refused:
        engine.check(study(REFUSED[field]).variants)
    assert [problem.field for problem in refused.value.problems] == [field]
    assert refused.value.problems[0].accepted


def test_no_word_of_the_engine_matters(fake_engine: object, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: str) -> str:
        raise fake_core.refused("endpoint.sram_bytes", "qwertz; accepted: asdf 7 B or more", "yxcv", least=4096)

    monkeypatch.setattr(fake_engine, "check", refuse)
    with pytest.raises(InputError) as refused:
        engine.check(study(f"{HEAD}{TORUS}{ACE}}}\n").variants)
    (problem,) = refused.value.problems
    assert (problem.field, problem.message) == ("endpoint.sram", "qwertz; accepted: asdf 7 B or more")
    assert problem.accepted == "at least 4KiB, or yxcv"


def test_fields_are_those_of_experiments() -> None:
    names = set(re.findall(r'"([a-z_]+)":', json.dumps(Experiment.model_json_schema())))
    for path in (*refusals.PARTS.values(), *refusals.NAMES.values()):
        assert names.issuperset(path), path
    for section in SECTIONS:
        assert set(section.ENGINE_NAMES.values()) <= set(section.model_fields), section


def test_the_engine_has_every_field_that_has_another_name() -> None:
    """In its own words: the fields of the description that crosses the binding."""
    folder = Path(__file__).parents[1] / "crates/system/src"
    written = {
        part: "".join(path.read_text() for path in (folder / part).glob("*.rs"))
        for part in ("spec", "networks", "endpoints")
    }
    written["spec"] += (folder / "spec.rs").read_text()
    for field in (*refusals.PARTS, *refusals.NAMES):
        assert re.search(rf"\b{field[-1]}: ", written["spec"]), field
    for section in SECTIONS:
        for name in section.ENGINE_NAMES:
            assert re.search(rf"\b{name}: ", written[f"{section.PART}s"]), (section, name)
