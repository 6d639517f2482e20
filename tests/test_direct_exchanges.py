"""All-to-alls where nothing is said of them: direct through switches, and as they were everywhere else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import syncline
from support.experiments import study
from syncline.base import document
from syncline.engine import assumptions
from syncline.engine.specification import along, incomplete, of_family
from syncline.experiment.load import Variant
from syncline.results import entries as results
from syncline.sections.experiment import Experiment
from syncline.studies.reasons import changes
from syncline.studies.searches import file as searches
from syncline.studies.searches import space

ALONE = "{collective: all-to-all, size: 8MiB}"
TABLES = "{model: dlrm, batch: 32}"
EXPERTS = "{model: mixtral-8x7b, parameters: {layers: 2}, global_batch: 32}"
SERVERS = "dgx-h100(nodes=2)"
SAID = "collective.algorithms.all-to-all = direct (default: "


def variant(workload: str, topology: str, *settings: str) -> Variant:
    """The only system of an experiment."""
    return study(f"name: one\ntopology: {topology}\nworkload: {workload}\nendpoint: ideal\n", *settings).variants[0]


def algorithm(experiment: Experiment) -> str:
    """That of all-to-alls."""
    return experiment.collective.algorithm_of("all-to-all")


@pytest.mark.parametrize("workload", [ALONE, TABLES, EXPERTS])
@pytest.mark.parametrize("topology", ["dgx-a100", SERVERS, "dgx2", '"LeafSpine(leaves=2, hosts=4, spines=2)"'])
def test_through_switches_they_are_direct(workload: str, topology: str) -> None:
    experiment = variant(workload, topology).experiment
    assert algorithm(experiment) == "direct"
    assert experiment.collective.algorithm == ("auto" if workload == ALONE else "six-phase")


@pytest.mark.parametrize("topology", ["dgx1v", "dgx1v(nodes=2)", "Ring(8)", "Switch(8)", "FullyConnected(4)_Ring(2)"])
def test_elsewhere_they_are_as_the_others(topology: str) -> None:
    assert algorithm(variant(TABLES, topology).experiment) == "six-phase"
    assert algorithm(variant(ALONE, topology).experiment) == "auto"


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("collective.algorithm=six-phase", "six-phase"),
        ("collective.algorithm=ring", "ring"),
        ("collective.algorithms.all-to-all=hierarchical", "hierarchical"),
        ("collective.algorithms.all-reduce=ring", "direct"),
        ("collective.per_dimension=[direct, ring]", "six-phase"),
        ("collective.chunks=4", "direct"),
        ("endpoint=nccl", "direct"),
    ],
)
def test_what_is_stated_holds(setting: str, expected: str) -> None:
    assert algorithm(variant(TABLES, SERVERS, setting).experiment) == expected


def test_a_run_sends_no_more_than_it_must() -> None:
    """Behind an NVSwitch 7/8 of what each rank has, where a ring of relays sends 28/8."""
    of = {
        "name": "one",
        "topology": "dgx-h100",
        "network": "flow",
        "workload": {"collective": "all-to-all", "size": "8MiB"},
    }
    found = syncline.run(of).systems["one"]
    stated = syncline.run(of | {"collective": {"algorithms": {"all-to-all": "direct"}}}).systems["one"]
    rings = {"algorithm": "six-phase", "per_dimension": ["ring"]}
    relayed = syncline.run(of | {"collective": rings}).systems["one"]
    assert found.total_time_s == stated.total_time_s
    assert relayed.total_time_s > 3 * found.total_time_s
    assert results.algorithm(variant(ALONE, "dgx-h100")) == {"algorithm": "direct"}


def test_switch_offload_of_nothing_but_exchanges_finds_its_switches() -> None:
    offload = 'endpoint={"kind": "switch-offload", "comm_memory_bandwidth": "128GB/s", "comm_sms": 4}'
    assert not variant(ALONE, SERVERS, offload).experiment.collective.has_direct_exchanges
    assert algorithm(variant(TABLES, SERVERS, offload).experiment) == "direct"


def test_it_is_an_assumption_where_there_are_any() -> None:
    def said(*about: str) -> list[str]:
        return [line for line in assumptions.of([variant(*about)]) if line.startswith("collective.algorithm")]

    (only,) = said(ALONE, SERVERS)
    assert only.startswith(SAID)
    assert [line.partition("(")[0] for line in said(EXPERTS, SERVERS, "parallel.expert=8")] == [
        "collective.algorithms.all-to-all = direct ",
        "collective.algorithm = six-phase ",
    ]
    assert said(EXPERTS, SERVERS) == ["collective.algorithm = six-phase (default)"]
    assert said(TABLES, SERVERS, "collective.algorithms.all-to-all=direct") == [
        "collective.algorithm = six-phase (default)"
    ]


def test_what_a_family_states_holds_for_its_exchanges() -> None:
    usual = variant(EXPERTS, SERVERS, "parallel.expert=8").experiment.collective
    assert of_family(usual, {"chunks": 2}).algorithm_of("all-to-all") == "direct"
    assert of_family(usual, {"algorithms": {"all-reduce": "ring"}}).algorithm_of("all-to-all") == "direct"
    assert of_family(usual, {"algorithms": {"all-to-all": "ring"}}).algorithm_of("all-to-all") == "ring"
    assert of_family(usual, {"algorithm": "ring"}).algorithm_of("all-to-all") == "ring"
    stated = variant(EXPERTS, SERVERS, 'parallel={"expert": 8, "collectives": {"expert": {"algorithm": "ring"}}}')
    parallel, collective = stated.experiment.parallel, stated.experiment.collective
    assert along(collective, parallel, "expert").algorithm_of("all-to-all") == "ring"
    assert along(collective, parallel, "data").algorithm_of("all-to-all") == "direct"
    both = variant(EXPERTS, SERVERS, "collective.algorithms.all-to-all=direct").experiment.collective
    assert of_family(both, {"algorithm": "ring"}).algorithm_of("all-to-all") == "direct"


@pytest.mark.parametrize(("axis", "expected"), [("", "direct"), ("algorithm: [six-phase]", "six-phase")])
def test_candidates_of_a_search(axis: str, expected: str) -> None:
    text = f"name: s\ntopology: {SERVERS}\nworkload: {EXPERTS}\nsearch:\n  expert: [1, 8]\n  {axis}\n"
    search = searches.of_tree(document.read(text, "s.yaml"), "s.yaml", Path())
    of = {
        candidate.parallel.expert: candidate.variant().experiment for candidate in space.candidates(search).candidates
    }
    assert algorithm(of[8]) == expected
    told = {family["name"]: family["collectives"] for family in incomplete(of[8], None)["families"]}
    assert dict(told["expert"]["algorithms"]).get("all-to-all", told["expert"]["algorithm"]) == expected


@pytest.mark.parametrize("topology", ["Switch(8)", "dgx-h100"])
def test_what_would_help_names_the_kind(topology: str) -> None:
    def tried(*settings: str) -> list[str]:
        experiment = variant(TABLES, topology, *settings).experiment
        return [json.dumps(change.settings) for change in changes.of(experiment, timeouts=False)]

    change = '[["collective.algorithms.all-to-all", "direct"]]'
    assert change in tried("collective.algorithm=six-phase")
    assert change not in tried("collective.algorithms.all-to-all=direct")
    assert change not in tried("collective.algorithm=direct")
