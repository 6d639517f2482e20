"""The engine's description of an experiment, as `crates/system/src/spec.rs` reads it.

What the engine has to be asked for before that is not in it yet (`completing`).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Final

from syncline.core import facts
from syncline.engine import in_flight, planned
from syncline.experiment import effect, programs
from syncline.fabric import topologies
from syncline.fabric.numbers import numbers
from syncline.fabric.topology import Topology
from syncline.models import described as models
from syncline.sections import compute_specification
from syncline.sections.collective import DEFAULT_CHUNK, Collective
from syncline.sections.data_types import Widths
from syncline.sections.execution import Execution
from syncline.sections.experiment import Experiment
from syncline.sections.packed import PACKED
from syncline.sections.parallel import Parallel
from syncline.sections.workloads import (
    DEFAULT_ELEMENT,
    AstraWorkload,
    CollectiveWorkload,
    DividedWorkload,
    GraphWorkload,
    JobsWorkload,
    ModelWorkload,
    PlacedJob,
    Training,
    kinds_of,
)
from syncline.strategies import training as divisions
from syncline.strategies.mesh import Mesh

AS_THEY_ARRIVE: Final = "a server takes gradients in the order in which they arrive, and some arrive at the same time"
"""Why trainings with asynchronous updates are not folded: on two servers that are alike, those that arrive at the same
time are not taken in the same order, and NPUs that are alike then wait for different times."""


def incomplete(experiment: Experiment, astra_text: str | None) -> dict[str, Any]:
    """The engine's description, without what it takes the engine to find out: the plans of trees that it asks for, what
    collectives cost, and what chunks are where nothing is said."""
    return {
        "fabric": _fabric(experiment),
        "groups": _groups(experiment),
        "fold": experiment.fold,
        "network": experiment.network.specification(),
        "endpoint": experiment.endpoint.specification(experiment.npu, experiment.transit),
        "collectives": _collectives(experiment, experiment.collective, kinds_of(experiment.workload)),
        **({"families": _families(experiment)} if experiment.is_graph else {}),
        **({"start": {"jitter_ps": experiment.network.jitter}} if experiment.network.jitter else {}),
        **_attributes(experiment),
        **({"changes": changes} if (changes := experiment.network.changes(experiment.topology.npus)) else {}),
        "job": _job(experiment, astra_text),
        "output": {
            "window_ps": experiment.output.window,
            "trace_npus": experiment.traced,
            "trace_limit": experiment.output.trace_limit,
        },
    }


def compute_share(experiment: Experiment) -> tuple[int, int]:
    """SMs and bytes/s that compute has: what communication and embeddings in the background take, it does not have.

    Without overlap nothing runs at the same time, so each has everything. With dynamic contention each has, too,
    whatever runs alone, and the engine works out what it has beside others.
    """
    training = experiment.training
    sms, bandwidth = experiment.endpoint.left(experiment.npu, overlaps=training.overlap)
    if training.background_embedding and not experiment.shares and not experiment.is_graph:
        sms -= training.background_sms
        bandwidth -= training.background_memory_bandwidth
    return sms, bandwidth


def compute_model(experiment: Experiment) -> dict[str, Any]:
    """What the NPUs of an experiment compute its model with, as `models.times` takes it."""
    return _compute(experiment, compute_share(experiment))


def _compute(experiment: Experiment, share: tuple[int, int]) -> dict[str, Any]:
    """What some of the SMs and of the memory bandwidth compute with."""
    element = getattr(experiment.workload, "element", DEFAULT_ELEMENT)
    of = compute_specification.Share(*share, npus=experiment.taking_part)
    return compute_specification.specification(experiment.npu, of, experiment.training, experiment.precision, element)


def _fabric(experiment: Experiment) -> dict[str, Any]:
    topology, specification = experiment.topology, experiment.topology.specification()
    if isinstance(topology, Topology) and experiment.slow_links:
        specification["odd_links"] = [
            {
                "npu": link.npu,
                "dim": link.dim,
                "way": link.way,
                "parallel": link.parallel,
                "rate_bytes_per_s": link.rate,
                "latency_ps": topology.dims[link.dim].latency if link.latency is None else link.latency,
            }
            for link in experiment.slow_links
        ]
    return specification


def _attributes(experiment: Experiment) -> dict[str, Any]:
    """What single nodes have, if the network backend knows it."""
    attributes = experiment.topology.attributes()
    known = facts.engine().networks[experiment.network.backend].attributes if attributes else []
    taken = [attribute for attribute in attributes if attribute["name"] in known]
    return {"attributes": taken} if taken else {}


def _groups(experiment: Experiment) -> dict[str, Any] | None:
    """Who works together, and in which shape where the engine does not know it from the fabric."""
    if experiment.is_graph or isinstance(experiment.workload, JobsWorkload):
        return None  # they have groups of their own
    members, grid = experiment.members, experiment.grid
    shaped = len(grid) > 1
    if members is None:
        if isinstance(experiment.topology, Topology) or not shaped:
            return None
        members = (tuple(range(experiment.topology.npus)),)
    return {"members": [list(group) for group in members], "grid": grid if shaped else None}


def _families(experiment: Experiment) -> list[dict[str, Any]]:
    """The families of communicators of a graph, in the order in which its nodes number them."""
    if isinstance(experiment.workload, DividedWorkload):
        return _families_of_axes(experiment)
    assert isinstance(experiment.workload, GraphWorkload)
    file, npus = experiment.workload.file, experiment.topology.npus
    return [
        {
            "name": name,
            "members": _shaped(experiment, file.engine_members(name, npus)),
            "collectives": _collectives(experiment, of_family(experiment.collective, family.collective), file.kinds),
            "priority": family.priority,
            "traffic_class": family.traffic_class,
        }
        for name, family in file.graph.families.items()
    ]


def _families_of_axes(experiment: Experiment) -> list[dict[str, Any]]:
    """The families of communicators along the axes of a division."""
    divided = divisions.divided(experiment)
    found = []
    for name, members in divided.families.items():
        collective = along(experiment.collective, experiment.parallel, name)
        collectives = _collectives(experiment, collective, divided.kinds)
        found.append({"name": name, "members": _shaped(experiment, members), "collectives": collectives})
    return found


def along(usual: Collective, parallel: Parallel, name: str) -> Collective:
    """How the collectives of a family of a division are carried out."""
    own: dict[str, Any] = {"algorithm": "direct"} if parallel.parameter_server != "none" and name == "data" else {}
    own |= next((keys for axis, keys in parallel.collectives.items() if axis == name), {})
    return of_family(usual, own)


def _shaped(experiment: Experiment, members: dict[str, Any]) -> dict[str, Any]:
    """The communicators of a family, in their shape where all have the same: a box of a product, or so many servers.

    Those by rule stay in the shape of their rule, unless they have that of servers, which the engine does not know.
    """
    by_rule_on_product = members["by"] == "grid" and isinstance(experiment.topology, Topology)
    groups = None if by_rule_on_product else family_groups(members, experiment.topology.npus)
    if groups is None or len({len(group) for group in groups}) != 1:
        return members
    grid = topologies.grid(experiment.topology, tuple(groups))
    return {"by": "list", "groups": groups, "grid": grid} if len(grid) > 1 else members


def family_groups(members: dict[str, Any], npus: int) -> list[list[int]] | None:
    """The communicators of a family, by rank; none where its grid is not one of so many NPUs, which the engine says."""
    if members["by"] == "list":
        found: list[list[int]] = members["groups"]
        return found
    sizes, along, first = members["sizes"], members["along"], members["first"]
    if first + prod(sizes) > npus or len(set(along)) != len(along):
        return None
    grid = Mesh(tuple(("", size) for size in sizes), (("along", tuple(along)),))
    return [[first + npu for npu in group] for group in grid.groups("along")]


def of_family(usual: Collective, own: dict[str, Any]) -> Collective:
    """How the collectives of a family are carried out: as those of the experiment, but for what is its own."""
    read = Collective.model_validate(own)
    changes = {name: getattr(read, name) for name in read.model_fields_set}
    if "chunks" in changes:
        changes.setdefault("chunk", None)
    if "chunk" in changes:
        changes.setdefault("chunks", None)
    if "slice" in changes:
        changes.setdefault("slices", None)
    if "slices" in changes:
        changes.setdefault("slice", None)
    return usual.changed(changes)


def _collectives(experiment: Experiment, collective: Collective, kinds: Sequence[str]) -> dict[str, Any]:
    assert not experiment.has_open_algorithms, "auto is settled before a run"
    # The engine never takes the ring in place of packed trees, which come to it as plans, nor where plans leave nothing
    # to choose.
    others = {"ring-unidirectional": "ring", PACKED: "ring", "auto": "ring"}
    endpoint = experiment.endpoint
    chunking: dict[str, Any] = {"by": "size", "bytes": collective.chunk or DEFAULT_CHUNK}
    cut = any(not programs.is_one_chunk(collective, kind) for kind in kinds)
    is_open = cut and endpoint.has_usual_chunks and in_flight.left_open(collective)
    if collective.chunks is not None:
        chunking = {"by": "count", "chunks": collective.chunks}
    elif collective.chunk is None and (least := experiment.endpoint.least_block(experiment.network)) is not None:
        chunking["least_block_bytes"] = least
    most_chunks = max(collective.chunks or 1, *collective.chunks_of.values(), 1)
    limit, posting = collective.inflight_per_dimension, experiment.network.posting
    plans = [plan.specification for plan in collective.plan]
    chunks_of = {kind: 1 for kind in kinds if programs.is_one_chunk(collective, kind)} | collective.chunks_of
    return {
        **planned.section(collective, kinds),
        **({in_flight.MARK: is_open} if is_open else {}),
        **({"plans": plans} if plans else {}),
        **({} if limit is None else {"inflight_per_dimension": limit}),
        **({"chunks_of": list(chunks_of.items())} if chunks_of else {}),
        **({"least_chunk_bytes": collective.least_chunk} if most_chunks > 1 else {}),
        **({} if collective.loops == 1 else {"loops": collective.loops}),
        **({} if posting == "rotated" else {"posting": posting}),
        "algorithm": others.get(collective.algorithm, collective.algorithm),
        "algorithms": [(kind, others.get(name, name)) for kind, name in collective.algorithms.items()],
        "per_dimension": collective.per_dimension,
        "slices": collective.slices if isinstance(collective.slices, int) else 0,
        "padding": collective.padding == "equal",
        "chunking": chunking,
        "inflight": collective.inflight,
        "scheduling": collective.scheduling,
        "priority": collective.priority,
        "lanes": experiment.lanes_of(collective),
        "element_bytes": experiment.workload.element,
    }


def _job(experiment: Experiment, astra_text: str | None) -> dict[str, Any]:
    workload = experiment.workload
    if isinstance(workload, CollectiveWorkload):
        kind, root = workload.collective, experiment.root
        beside = [
            {"milliwarps": round(1000 * load.warps), "memory_bytes_per_s": load.memory_bandwidth or 0}
            for load in workload.beside
            for _ in range(load.count)
        ]
        job = {"kind": "collective", "collective": kind, "bytes": workload.size, "root": root}
        return {**job, "beside": beside} if beside else job
    training = experiment.training
    if isinstance(workload, JobsWorkload):
        return {
            "kind": "jobs",
            "jobs": [_placed(experiment, job) for job in workload.jobs],
            "drain": experiment.tail == "drain",
            "stragglers": [[straggler.npu, straggler.factor] for straggler in training.stragglers],
        }
    if isinstance(workload, GraphWorkload | DividedWorkload):
        return {
            "kind": "graph",
            "graph": _graph(experiment),
            "iterations": experiment.iterations,
            "drain": experiment.tail == "drain",
            "stragglers": [[straggler.npu, straggler.factor] for straggler in training.stragglers],
            "compute": _compute(experiment, compute_share(experiment)),
        }
    background = None
    if training.background_embedding:
        given = (training.background_sms, training.background_memory_bandwidth)
        background = _compute(experiment, compute_share(experiment) if experiment.shares else given)
    return {
        "kind": "training",
        "workload": _workload(experiment, workload, astra_text, _ranks(experiment)),
        "strategy": experiment.strategy,
        "iterations": experiment.iterations,
        "overlap": training.overlap,
        **(_gradients(training) if effect.has_gradients(experiment) else {}),
        "drain": experiment.tail == "drain",
        "update": training.update,
        "stragglers": [[straggler.npu, straggler.factor] for straggler in training.stragglers],
        "compute": _compute(experiment, compute_share(experiment)),
        **(_host(experiment) if isinstance(workload, ModelWorkload) else {}),
        "background": background,
    }


def _graph(experiment: Experiment) -> dict[str, Any]:
    """The graphs of classes, as a file or the division of a model has them."""
    workload = experiment.workload
    if isinstance(workload, GraphWorkload):
        file, npus = workload.file, experiment.topology.npus
        costs = file.engine_costs()
        return {"classes": file.engine_classes(npus), **({"costs": costs} if costs else {})}
    found = divisions.divided(experiment).engine_graph()
    return found if experiment.parallel.updates == "synchronous" else {**found, "unfolded": AS_THEY_ARRIVE}


def _gradients(training: Training) -> dict[str, Any]:
    """Which gradients are all-reduced together, and what waits for all of them."""
    found: dict[str, Any] = {"barrier": True} if training.barrier else {}
    if training.bucket is not None:
        found["buckets"] = {"first_bytes": training.first_bucket or training.bucket, "bytes": training.bucket}
    return found


def _host(experiment: Experiment) -> dict[str, int]:
    """What launches kernels."""
    time = Execution.of(experiment.npu, experiment.training).host_kernel_time
    return {"host_kernel_ps": time} if time else {}


def _placed(experiment: Experiment, job: PlacedJob) -> dict[str, Any]:
    """A job among several."""
    training = experiment.training
    trained = {
        "kind": "training",
        "workload": _workload(experiment, job.workload, None),
        "strategy": "data-parallel",
        "iterations": job.iterations or experiment.iterations,
        "overlap": training.overlap,
        **_gradients(training),
        "drain": experiment.tail == "drain",
        "update": training.update,
        "compute": _compute(experiment, compute_share(experiment)),
        **_host(experiment),
    }
    own = of_family(experiment.collective, job.collective)
    collectives = _collectives(experiment, own, kinds_of(job.workload))
    npus = numbers(job.npus, experiment.topology.npus)
    grid = topologies.grid(experiment.topology, (tuple(npus),))
    return {
        "name": job.name,
        "npus": npus,
        "grid": grid if len(grid) > 1 else None,
        "job": trained,
        "collectives": collectives | {"element_bytes": job.workload.element},
    }


def _ranks(experiment: Experiment) -> int:
    """NPUs that train together."""
    return experiment.topology.npus if experiment.members is None else len(experiment.members[0])


def _workload(
    experiment: Experiment, workload: ModelWorkload | AstraWorkload, astra_text: str | None, npus: int = 1
) -> dict[str, Any]:
    if isinstance(workload, ModelWorkload):
        execution = Execution.of(experiment.npu, experiment.training)
        model, element, kernels = execution.model(workload.evaluated), workload.element, workload.kernels
        framework = execution.framework(Widths.usual(element), model, workload.layout, casts_whole=False)
        found = (
            models.recommender(model, npus, element, kernels)
            if workload.file.is_distributed
            else models.chain(model, element, kernels)
        )
        more = {"linear_bytes": workload.linear_element, "framework": framework}
        return found | {name: value for name, value in more.items() if value is not None}
    return {"source": "astra-text", "text": astra_text or ""}
