"""Many NPUs: runs that simulate one of each class of equal NPUs, and that are set up once."""

from __future__ import annotations

from pathlib import Path

import pytest

from syncline.base import document
from syncline.engine import estimate
from syncline.engine import runs as engine
from syncline.experiment.load import Variant, load

SMALL = "{layers: 2, hidden: 64, heads: 8, vocabulary: 256, positions: 32}"
EXPERIMENT = (
    f"name: small\ntopology: dgx-a100(nodes=8)\nworkload: {{model: gpt2, parameters: {SMALL}, global_batch: 16}}\n"
    "parallel: {tensor: 8, pipeline: 2, micro_batch: 1}\ncollective: {chunks: 16}\nnetwork: flow\n"
)


def loaded(more: str = "") -> Variant:
    """The division of `bench_scale` on 64 NPUs, of a small model."""
    return load(document.read(EXPERIMENT + more, "gpt.yaml"), "gpt.yaml", Path()).variants[0]


def test_a_representative_of_each_class_gives_the_answer_of_all_64_npus() -> None:
    folded, whole = (engine.run(loaded(f"fold: '{fold}'\n")) for fold in ("on", "off"))
    assert (folded.summary["simulated_npus"], whole.summary["simulated_npus"]) == (4, 64)
    different = {name for name in whole.summary if folded.summary[name] != whole.summary[name]}
    assert different <= {"simulated_npus", "unfolded", "events"}
    for name in ("collectives", "layers", "windows"):
        assert folded.tables[name].equals(whole.tables[name]), name


def test_what_has_been_set_up_runs_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a run that is set up anew, whatever has been begun before."""
    variant = loaded()
    preview, prepared = engine.prepare(variant, steady=True)
    assert preview == engine.preview(variant)
    assert engine.attempt(variant, most_work=5000, prepared=prepared) == engine.attempt(variant, most_work=5000)
    anew = engine.run(variant, steady=True)
    for _ in range(2):
        again = engine.run(variant, steady=True, prepared=prepared)
        assert again.summary == anew.summary
        assert {name: table.equals(anew.tables[name]) for name, table in again.tables.items()} == dict.fromkeys(
            anew.tables, True
        )
    monkeypatch.setattr(estimate, "PROBED_EVENTS", 0)
    assert estimate.of_variant(variant, preview, prepared) == estimate.of_variant(variant, preview)


def test_large_machines_are_not_set_up_twice_for_an_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, **__: object) -> None:
        pytest.fail("the run is begun")

    variant = loaded()
    preview = engine.preview(variant)
    monkeypatch.setattr(estimate, "PROBED_EVENTS", 0)
    monkeypatch.setattr(estimate, "PROBED_NPUS", 63)
    monkeypatch.setattr(engine, "attempt", never)
    assert estimate.of_variant(variant, preview) == estimate.of(variant.experiment, preview)
