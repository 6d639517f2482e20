"""Columns of a sweep that only the real engine fills, and the page that explains them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from pydantic import BaseModel

from support.experiments import study
from syncline.base import quantities
from syncline.sections.experiment import Experiment
from syncline.sections.wording import accepted_text
from syncline.studies.sweeps import measures
from syncline.studies.sweeps.table import COST, LABELS, UNITS

DOCS = Path(__file__).parent.parent / "docs/sweeps.md"
COLLECTIVE = "name: one\ntopology: {topology}\nworkload: {{collective: {kind}, size: 1MiB}}\n"
TRAINING = "name: one\ntopology: Ring(4)\nworkload: {model: resnet18, batch: 8}\n"
LOSSY = "collective: {algorithm: direct}\nnetwork: {backend: ethernet, buffer: 16KiB, jitter: 1us, min_rto: 5ms}\n"
MIB = 2**20


def measured(text: str) -> dict[str, object]:
    """The measures of the only variant of an experiment."""
    (variant,) = study(text).variants
    entry = measures.simulate(variant)
    assert entry.status == "done", entry.error
    return entry.measures


def test_what_loses_frames_is_the_median_over_its_seeds() -> None:
    (variant,) = study(COLLECTIVE.format(topology="Switch(8)", kind="all-reduce") + LOSSY).variants
    entry = measures.simulate(variant, 5)
    each = [measures.simulate(replace(variant, seed=seed)) for seed in range(5)]
    assert len({one.measures["time_s"] for one in each}) == 5
    for name in ("time_s", "drops", "retransmissions", "mean_link_utilisation"):
        assert entry.measures[name] == sorted(one.measures[name] for one in each)[2]
    assert entry.measures["algorithm"] == "direct"
    assert entry.measures["seeds"] == 5
    assert entry.events == sum(one.events or 0 for one in each)


def test_what_loses_nothing_is_run_once() -> None:
    text = COLLECTIVE.format(topology="Switch(8)", kind="all-reduce") + LOSSY.replace("16KiB", "8MiB")
    (variant,) = study(text).variants
    once, five = measures.simulate(variant), measures.simulate(variant, 5)
    assert once.measures["drops"] == 0
    assert (five.measures, five.events) == (once.measures, once.events)


def test_shares_of_resources_are_of_the_npus_that_take_part() -> None:
    """Half of a switch's NPUs are as busy as those of a switch half as large."""
    baseline = "endpoint: {kind: baseline, comm_memory_bandwidth: 100GB/s, comm_sms: 4}\nnetwork: flow\n"
    baseline += "collective: {algorithm: direct, chunks: 4}\n"
    half, alone = (
        measured(COLLECTIVE.format(topology=topology, kind="all-reduce") + baseline + more)
        for topology, more in (("Switch(8)", "groups: 0-3\n"), ("Switch(4)", ""))
    )
    shares = [name for name in alone if name in ("memory_utilisation", "sm_utilisation", "bus_tx_utilisation")]
    assert len(shares) == 3
    for name in shares:
        assert half[name] == pytest.approx(alone[name])


def documented(column: str) -> bool:
    """Whether the page has a column: by its name, or by a pattern such as `RESOURCE_wait_s`."""
    named = re.findall(r"`([A-Za-z_0-9]+)`", DOCS.read_text())
    patterns = [re.sub(r"RESOURCE|PARTITION", "[a-z0-9_]+", name) for name in named]
    return any(re.fullmatch(pattern, column) for pattern in patterns)


def test_the_check_knows_what_is_not_documented() -> None:
    assert documented("sm_wait_s")
    assert not documented("sm_waits_s")


@pytest.mark.parametrize(
    "text",
    [
        TRAINING + "endpoint: {kind: ace, comm_memory_bandwidth: 128GB/s}\ncollective: {algorithm: ring}\n",
        TRAINING + "endpoint: {kind: baseline, comm_memory_bandwidth: 128GB/s, comm_sms: 6}\n",
        COLLECTIVE.format(topology="Switch(4)", kind="all-reduce")
        + "endpoint: {kind: switch-offload, comm_memory_bandwidth: 128GB/s}\n",
        COLLECTIVE.format(topology="Switch(8)", kind="all-reduce") + LOSSY,
    ],
    ids=["ACE", "baseline", "switch offload", "Ethernet with losses"],
)
def test_every_column_is_documented(text: str) -> None:
    columns = [*measured(text), *LABELS, *COST, "status", "error", "npus", "topology"]
    assert [column for column in columns if not documented(column)] == []


def test_what_switches_send() -> None:
    text = COLLECTIVE.format(topology="Switch(4)", kind="all-reduce")
    offload = "endpoint: {kind: switch-offload, comm_memory_bandwidth: 128GB/s}\n"
    found = measured(f"{text}{offload}collective: {{algorithm: in-switch}}\n")
    assert (found["sent_bytes"], found["sent_by_switches_bytes"], found["transit_bytes"]) == (4 * MIB, 4 * MIB, 0)
    assert found["link_bytes"] == 8 * MIB


def test_what_endpoints_forward() -> None:
    text = COLLECTIVE.format(topology="Ring(4)", kind="all-to-all")
    found = measured(text + "collective: {algorithm: direct}\nendpoint: {kind: ideal, transit: endpoint}\n")
    # A quarter of the vector to each of three others, one of which is two links away.
    assert (found["sent_bytes"], found["transit_bytes"]) == (3 * MIB, MIB)
    assert found["link_bytes"] == 4 * MIB


def test_how_full_an_sram_was() -> None:
    text = TRAINING + "endpoint: {kind: ace, comm_memory_bandwidth: 128GB/s}\ncollective: {algorithm: ring}\n"
    found = measured(text)
    partitions = [c.removesuffix("_peak_bytes") for c in found if c.startswith("sram_") and c.endswith("_peak_bytes")]
    assert "sram_terminal" in partitions
    for name in partitions:
        peak, capacity = found[f"{name}_peak_bytes"], found[f"{name}_capacity_bytes"]
        assert isinstance(peak, int)
        assert isinstance(capacity, int)
        assert 0 < peak <= capacity


def test_compute_beside_communication() -> None:
    alone, beside = (
        measured(f"{TRAINING}endpoint: {{kind: baseline, comm_sms: 6, {memory}}}\n")
        for memory in ("comm_memory_bandwidth: 128GB/s", "contention: dynamic")
    )
    assert alone["compute_time_s"] == alone["compute_time_alone_s"]
    assert isinstance(beside["compute_time_s"], float)
    assert isinstance(beside["compute_time_alone_s"], float)
    assert beside["compute_time_s"] > beside["compute_time_alone_s"]


def models(kind: object) -> Iterator[type[BaseModel]]:
    """The models in a type, and in those of their fields."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield kind
        kinds: Sequence[object] = [info.annotation for info in kind.model_fields.values()]
    else:
        kinds = get_args(kind)
    for inner in kinds:
        yield from models(inner)


def test_every_quantity_has_a_unit() -> None:
    """Also where a field takes `auto` or nothing instead of one."""
    kinds = (quantities.SIZE, quantities.RATE, quantities.TIME, quantities.FREQUENCY, quantities.COMPUTE)
    texts = {accepted_text(info) or "" for model in set(models(Experiment)) for info in model.model_fields.values()}
    assert {kind.accepted for kind in kinds} - texts == set()
    assert [text for text in texts if text not in UNITS and any(kind.accepted in text for kind in kinds)] == []
