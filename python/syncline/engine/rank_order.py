"""What is to be known of ranks that go back and forth between servers.

A ring goes from rank to rank, and a composition takes servers for a dimension only where the NPUs of each are in a row.
NCCL finds its rings from the machine, in whatever order ranks are, so the endpoint that takes its times has no part in
this; nor has a model that is divided, whose ranks follow the numbers of NPUs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from syncline.engine.specification import family_groups, of_family
from syncline.experiment import programs
from syncline.fabric.numbers import numbers
from syncline.fabric.topologies import Wired
from syncline.sections.collective import Collective
from syncline.sections.experiment import Experiment
from syncline.sections.workloads import GraphWorkload, JobsWorkload, kinds_of


def warnings(experiment: Experiment) -> Iterator[str]:
    """A sentence for everything whose ranks come back to a server, where a ring or a composition follows them."""
    topology = experiment.topology
    if not isinstance(topology, Wired) or experiment.endpoint.is_priced:
        return
    hosts = [node.host for node in topology.graph.nodes]
    for where, groups, collective in _listed(experiment):
        back = next((npu for group in groups if (npu := _back(group, hosts)) is not None), None)
        if back is not None and _follows(collective, kinds_of(experiment.workload)):
            yield (
                f"{where}: at NPU {back}, ranks come back to a server that they have left: rings go from rank to rank, "
                "and compositions know servers only where NPUs of each are in a row (NCCL's rings follow the machine)"
            )


def _listed(experiment: Experiment) -> Iterator[tuple[str, Sequence[Sequence[int]], Collective]]:
    """Who works together by what the experiment says, by rank, and how collectives are carried out there."""
    workload, npus, usual = experiment.workload, experiment.topology.npus, experiment.collective
    if isinstance(workload, GraphWorkload):
        graph = workload.file.graph
        nodes = (node for of in graph.classes.values() for node in of.nodes)
        named = {node.collective.family for node in nodes if node.collective is not None}
        for name, family in graph.families.items():
            if name in named:
                groups = family_groups(workload.file.engine_members(name, npus), npus)
                yield f"family {name}", groups or [], of_family(usual, family.collective)
    elif isinstance(workload, JobsWorkload):
        for job in workload.jobs:
            yield f"job {job.name}", [numbers(job.npus, npus)], of_family(usual, job.collective)
    elif experiment.groups is not None:
        yield "groups", experiment.members or [], usual


def _back(members: Sequence[int], hosts: Sequence[int | None]) -> int | None:
    """The first of the members in a server that those before it have been in, and have left."""
    left: set[int | None] = set()
    for before, npu in pairwise(members):
        if hosts[npu] != hosts[before]:
            left.add(hosts[before])
            if hosts[npu] in left:
                return npu
    return None


def _follows(collective: Collective, kinds: Sequence[str]) -> bool:
    """Whether any of these collectives is a ring or a composition; with plans, ranks are what the plan says."""
    followers = {"ring", "ring-unidirectional", *programs.COMPOSITIONS}
    return not collective.plan and any(collective.algorithm_of(kind) in followers for kind in kinds)
