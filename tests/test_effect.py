"""Every setting acts, is refused or is listed as without effect, with every kind of workload, endpoint and backend."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from support import registry
from syncline.base import document
from syncline.base.errors import InputError
from syncline.core.preview import Preview
from syncline.engine import assumptions, completing, estimate
from syncline.engine import runs as engine
from syncline.engine.planned import TreesError
from syncline.experiment import effect
from syncline.experiment.load import Variant, load
from syncline.experiment.merge import parse_override
from syncline.plans import plan, ring
from syncline.sections.execution import Execution
from syncline.sections.experiment import Experiment
from syncline.sections.networks.base import COMMON
from syncline.sections.networks.ethernet import USUAL, EthernetNetwork
from syncline.sections.workloads import DividedWorkload, models_of
from syncline.studies.sweeps import file, points

IDLE_IN: Final = 6
"""In one of so many experiments a field that acts elsewhere is tried again, which would have to have no effect."""
SHARED_BY: Final = 15
"""So many experiments share the fields of what is accepted and refused, of which there are many thousands."""
TEXT: Final = (
    "DATA\n2\nfirst -1 13003 NONE 0 12864 NONE 0 32291 ALLREDUCE 376320 3229\n"
    "second -1 16416 NONE 0 27708 NONE 0 9220 ALLREDUCE 819200 922\n"
)
GPT: Final = (
    "{model: gpt2, global_batch: 32, parameters: {layers: 8, hidden: 32, heads: 4, vocabulary: 64, positions: 8}}"
)
TYPES: Final = "precision: {weights: bf16, compute: bf16, gradients: bf16, states: fp32}"
EXPERTS: Final = (
    "{model: mixtral-8x7b, global_batch: 8, sequence: 8, "
    "parameters: {layers: 1, hidden: 32, heads: 4, kv_heads: 2, feed_forward: 64, vocabulary: 64}}"
)
"""Models that are divided, so small that they cost nothing."""
WORKLOADS: Final = (
    "{model: resnet18, batch: 4}",
    "{model: gnmt, batch: 4}",
    "{model: dlrm, batch: 16}",
    "{astra_text: workload.txt}",
    "{collective: all-reduce, size: 3MB}",
    "{collective: all-gather, size: 3MB}",
    "{collective: all-to-all, size: 3MB}",
    "{collective: broadcast, size: 3MB}",
)
WAYS: Final = (
    *registry.ENDPOINTS.values(),
    "{kind: baseline, comm_memory_bandwidth: 200GB/s, comm_sms: 4, "
    "buses: {kind: loggp, latency: 40ns, overhead: 20ns, gap: 30ns, message: 64KiB}}",
    "{kind: baseline, contention: dynamic, comm_sms: 4}",
    "{kind: switch-offload, comm_memory_bandwidth: 200GB/s, comm_sms: 4}",
)
"""Every endpoint, and some with parameters that have fields or effects of their own."""
FABRICS: Final = (
    ("Ring(4, rate=100GB/s)_Ring(2, rate=50GB/s)", "six-phase"),
    ("Ring(2, rate=100GB/s)_Switch(4, rate=50GB/s)", "hierarchical"),
    ("Ring(8, rate=100GB/s)", "direct"),
    ("FullyConnected(4, rate=50GB/s)_Ring(2, rate=50GB/s)", "ring"),
)
OTHER: Final[dict[str, Any]] = {
    "topology": "Ring(4, rate=30GB/s)_Ring(2, rate=30GB/s)",
    "gpus": "0-3",
    "groups": "size 2",
    "slow_links": [{"npu": 0, "dim": 0, "way": "up", "rate": "1GB/s"}],
    "npu.gpu": "b200",
    "npu.peak": "10TFLOP/s",
    "npu.sms": 60,
    "npu.clock": "300MHz",
    "npu.memory_bandwidth": "210GB/s",
    "npu.bus": "20GB/s",
    "npu.sm_read": "2B",
    "npu.compute.kind": "systolic",
    "npu.compute.rows": 16,
    "npu.compute.columns": 16,
    "npu.compute.dataflow": "weight-stationary",
    "npu.compute.clock": "100MHz",
    "npu.compute.tile": 4,
    "npu.compute.arrays": 4,
    "npu.compute.sram_inputs": "1KiB",
    "npu.compute.sram_weights": "1KiB",
    "npu.compute.sram_outputs": "1KiB",
    "npu.compute.tiles.sizes": [[16, 16]],
    "npu.power": "200W",
    "npu.host_kernel_time": "900us",
    "npu.compute.tiles.splits": [1],
    "npu.compute.tiles.sustained": "50%",
    "npu.compute.tiles.reuse": 50.0,
    "npu.compute.tiles.fill": 3000,
    "npu.compute.tiles.sustained_memory": "20%",
    "npu.compute.tiles.split_overhead": "500ns",
    "npu.compute.tiles.misaligned": "2%",
    "npu.compute.table": "other.csv",
    "npu.compute.sparsity": "2:4",
    "npu.compute.launch": "3us",
    "network.packet": "512B",
    "network.buffer": "2KiB",
    "network.deadlock_rule": "dateline",
    "network.posting": "random",
    "network.jitter": "3us",
    "network.transport": "roce",
    "network.profile": "ns3-3.37",
    "network.congestion_control": "cubic",
    "network.retransmission": "selective-repeat",
    "network.dcqcn.gain": "50%",
    "network.dcqcn.notification": "2us",
    "network.dcqcn.alpha_timer": "1us",
    "network.dcqcn.rate_timer": "1us",
    "network.dcqcn.byte_counter": "1KiB",
    "network.dcqcn.rounds": 1,
    "network.dcqcn.additive": "1GB/s",
    "network.dcqcn.hyper": "9GB/s",
    "network.dcqcn.least": "5GB/s",
    "network.segment": "512B",
    "network.overhead": "80B",
    "network.buffer_sharing": "dynamic",
    "network.buffer_alpha": 0.125,
    "network.flow_control": "pfc",
    "network.headroom": "1500B",
    "network.nic_queues": "flow",
    "network.nic_queue": "2KiB",
    "network.outstanding": 1,
    "network.window": "2KiB",
    "network.min_rto": "1ms",
    "network.initial_window": 1,
    "network.delayed_ack": 2,
    "network.delayed_ack_timeout": "3us",
    "network.sack": "off",
    "network.recovery": "classic",
    "network.connections": "pair",
    "network.balancing": "packet",
    "network.inside": "flow",
    "network.ecn_threshold": "2KiB",
    "network.ecn_above": "100KiB",
    "network.ecn_probability": "50%",
    "network.background": [{"from": "npu 1", "to": "npu 0", "size": "100kB"}],
    "network.faults": [{"node": "npu 1", "rate": "50%"}],
    "workload.batch": 8,
    "workload.element": "8B",
    "workload.precision": "fp32",
    "workload.kernels": "weighted",
    "workload.layout": "nchw",
    "workload.sequence": 4,
    "workload.size": "5MB",
    "workload.root": 3,
    "workload.beside": [{"name": "x", "warps": 32, "memory_bandwidth": "100GB/s"}],
    "training.kernels": "megatron",
    "training.launch": "graph",
    "training.attention": "unfused",
    "training.loss": "fused",
    "training.strategy": "hybrid",
    "training.iterations": 3,
    "training.overlap": False,
    "training.bucket": "3MB",
    "training.first_bucket": "7MB",
    "training.barrier": True,
    "training.tail": "drain",
    "training.update": False,
    "training.background_embedding": True,
    "training.background_sms": 20,
    "training.background_memory_bandwidth": "20GB/s",
    "training.stragglers": [{"npu": 1, "factor": 3.0}],
    "training.compute_scale": 5.0,
    "collective.algorithm": "halving-doubling",
    "collective.algorithms": {"all-reduce": "double-binary-tree"},
    "collective.plan": "ring8.json",
    "collective.per_dimension": ["direct", "halving-doubling"],
    "collective.slices": 3,
    "collective.slice": "300kB",
    "collective.padding": "none",
    "collective.scheduling": "fifo",
    "collective.priority": ["all-to-all"],
    "collective.chunk": "100kB",
    "collective.chunks": 3,
    "collective.inflight": 1,
    "collective.inflight_per_dimension": 1,
    "collective.chunks_of": {"all-reduce": 3},
    "collective.least_chunk": "1MB",
    "collective.lanes": "one",
    "collective.loops": 3,
    "endpoint.step_latency": "3us",
    "endpoint.injection_latency": "3us",
    "endpoint.forwarding": "packets",
    "endpoint.transit": "network",
    "endpoint.comm_memory_bandwidth": "20GB/s",
    "endpoint.comm_sms": 2,
    "endpoint.comm_warps": 1,
    "endpoint.kernel_warps": 1.0,
    "endpoint.memory_bandwidth": "100GB/s",
    "endpoint.charge_writes": True,
    "endpoint.buses.kind": "rate",
    "endpoint.buses.latency": "4us",
    "endpoint.buses.overhead": "2us",
    "endpoint.buses.gap": "3us",
    "endpoint.buses.message": "1KiB",
    "endpoint.buses.memory": "40GB/s",
    "endpoint.clock": "200MHz",
    "endpoint.sram": "1MiB",
    "endpoint.banks": 1,
    "endpoint.port_width": "8B",
    "endpoint.alus": 1,
    "endpoint.fsms": 8,
    "endpoint.fsm_split": "need",
    "endpoint.message": "1KiB",
    "endpoint.port_buffer": "512B",
    "endpoint.switch_reduce_bandwidth": "1GB/s",
    "endpoint.switch_memory": "16KiB",
    "endpoint.switch_latency": "5us",
    "endpoint.copy_overhead": "3us",
    "endpoint.kernel_overhead": "3us",
    "endpoint.event_overhead": "3us",
    "endpoint.reduce_rate": "3GB/s",
    "endpoint.start_latency": "3us",
    "endpoint.peer_access_latency": "3us",
    "collective.trees.links": "pcie",
    "collective.trees.objective": "trees",
    "endpoint.sharing": "delayed",
    "endpoint.delay": 7.0,
    "workload.global_batch": 64,
    "workload.parameters": {"layers": 8, "hidden": 16, "heads": 4, "vocabulary": 64, "positions": 8},
    "parallel.tensor": 2,
    "parallel.sequence": True,
    "parallel.context": 2,
    "parallel.context_exchange": "all-gather",
    "parallel.expert": 2,
    "parallel.expert_loads": [1.0, 3.0, 2.0, 2.0],
    "parallel.pipeline": 4,
    "parallel.virtual": 4,
    "parallel.schedule": "gpipe",
    "parallel.data": 2,
    "parallel.zero": 1,
    "parallel.hsdp": 2,
    "parallel.prefetch": 3,
    "parallel.micro_batch": 2,
    "parallel.recompute": "full",
    "parallel.recompute_operators": ["mlp"],
    "parallel.scatter_gather": True,
    "parallel.order": ["pipeline", "data", "context", "tensor"],
    "parallel.on": {"tensor": [0], "data": [1, 2]},
    "parallel.parameter_server": "sharded",
    "parallel.updates": "asynchronous",
    "parallel.optimiser.kind": "sgd",
    "parallel.optimiser.implementation": "foreach",
    "workload.precision.weights": "fp32",
    "workload.precision.compute": "fp32",
    "workload.precision.gradients": "fp32",
    "workload.precision.states": "bf16",
    "parallel.overlap.tensor": False,
    "parallel.overlap.pipeline": False,
    "parallel.collectives": {"data": {"algorithm": "halving-doubling"}},
}
"""For every field another value than its default, and than that of the experiments here."""
FILLS: Final = frozenset({"npu.gpu", "npu.compute.table", "workload.precision", "collective.plan", "collective.loops"})
"""Fields that decide on others where these are not stated, and those of files, which are read with the experiment."""
MOST_EVENTS: Final = 300_000
"""Of an experiment that is simulated with another value of every field."""
BY_DEFAULT: Final[dict[str, Callable[[Experiment], str]]] = {
    "training.strategy": lambda experiment: experiment.strategy,
    "endpoint.transit": lambda experiment: experiment.transit,
    "endpoint.sharing": lambda experiment: getattr(experiment.endpoint, "sharing", ""),
    "parallel.data": lambda _: "what is left",
    "parallel.tensor": lambda experiment: str(experiment.parallel.tensor),
    "parallel.context": lambda experiment: str(experiment.parallel.context),
    "training.tail": lambda experiment: experiment.tail,
    "parallel.optimiser.implementation": lambda experiment: (
        experiment.parallel.optimiser.implementation or Execution.of(experiment.npu, experiment.training).optimiser
    ),
}
"""Fields whose default is worked out, or that an experiment here gives; what is given may be the same."""
KINDS: Final = frozenset({"contention", "backend", "kind", "model", "astra_text", "collective"})
"""What tells experiments of this test apart."""


MORE: Final = (
    "name: a\ntopology: Ring(8, rate=100GB/s)\nworkload: {collective: all-to-all, size: 3MB}\n"
    "network: {backend: packet, buffer: 1KiB}\nendpoint: {kind: ideal, transit: network}\n"
    "collective: {algorithm: direct, chunk: 64KiB}\n",
    "name: a\ntopology: Ring(4, rate=100GB/s)\nworkload: {model: resnet18, batch: 4}\nnetwork: analytical\n"
    "npu: {compute: {kind: systolic}}\n",
    "name: a\ntopology: Ring(4, rate=100GB/s)\nworkload: {model: resnet18, batch: 4}\nnetwork: analytical\n"
    "npu: {compute: {kind: tiles}}\n",
    "name: a\ntopology: Ring(4, rate=100GB/s)\nworkload: {model: resnet18, batch: 4}\nnetwork: analytical\n"
    "npu: {compute: {kind: table, table: kernels.csv}}\n",
    "name: a\ntopology: dgx-h100\nworkload: {model: resnet18, batch: 4, element: 2B}\nnetwork: analytical\n"
    "endpoint: {kind: ideal}\ncollective: {chunk: 4MiB}\n",
    "name: a\ntopology: Ring(4, rate=10GB/s)\nworkload: {model: resnet18, batch: 4}\nnetwork: analytical\n"
    "training: {bucket: 5MB}\n",
    "name: a\ntopology: Ring(4, rate=100GB/s)\nworkload: {model: dlrm, batch: 512}\nnetwork: analytical\n"
    "training: {background_embedding: true}\ncollective: {chunk: 16MiB}\n",
    "name: a\ntopology: Ring(8, rate=100GB/s)\nworkload: {collective: all-reduce, size: 3MB}\nnetwork: analytical\n"
    "collective: {plan: other.json, chunk: 64KiB}\n",
    "name: a\ntopology: Switch(8, rate=12.5GB/s)\nworkload: {collective: gather, size: 2MB, root: 0}\n"
    "network: {backend: ethernet, buffer: 20kB}\nendpoint: {kind: ideal}\n"
    "collective: {algorithm: direct, chunk: 64KiB}\n",
    "name: a\ntopology: Switch(8, rate=12.5GB/s)\nworkload: {collective: gather, size: 2MB, root: 0}\n"
    "network: {backend: ethernet, transport: roce, flow_control: none, buffer: 20kB}\n"
    "endpoint: {kind: ideal}\ncollective: {algorithm: direct, chunk: 64KiB}\n",
    "name: a\ntopology: Switch(8, rate=12.5GB/s)\nworkload: {collective: all-reduce, size: 1MB}\n"
    "network: ethernet\nendpoint: {kind: ideal}\ncollective: {algorithm: double-binary-tree, chunk: 64KiB}\n",
    "name: a\ntopology: Switch(8, rate=12.5GB/s)\nworkload: {collective: gather, size: 2MB, root: 0}\n"
    "network: {backend: ethernet, transport: roce, buffer: 60kB, buffer_sharing: dynamic}\nendpoint: {kind: ideal}\n"
    "collective: {algorithm: direct, chunk: 64KiB}\n",
    "name: a\ntopology: Switch(8, rate=12.5GB/s)\nworkload: {collective: gather, size: 2MB, root: 0}\n"
    "network: {backend: ethernet, buffer: 20kB, ecn_threshold: 4kB, ecn_above: 16kB, ecn_probability: 10%, "
    "delayed_ack: 2}\n"
    "endpoint: {kind: ideal}\ncollective: {algorithm: direct, chunk: 64KiB}\n",
    "name: a\ntopology: LeafSpine(leaves=2, hosts=3, spines=1, rate=100Gb/s, uplink_rate=50Gb/s)\n"
    "workload: {collective: all-to-all, size: 2MB}\nendpoint: {kind: ideal}\n"
    "collective: {algorithm: direct, chunk: 64KiB}\n"
    "network: {backend: ethernet, transport: roce, ecn_threshold: 4kB, dcqcn: {notification: 1us, rate_timer: 2us, "
    "byte_counter: 4KiB, alpha_timer: 2us, additive: 100MB/s, hyper: 200MB/s, least: 200MB/s}}\n",
    "name: a\ntopology: dgx-a100\nworkload: {collective: all-reduce, size: 1MB}\nendpoint: {kind: ideal}\n"
    "network: {backend: ethernet, transport: roce}\ncollective: {algorithm: ring, chunks: 2}\n",
    "name: a\ntopology: Ring(8, rate=100GB/s)\nworkload: {collective: all-reduce, size: 3MB}\nnetwork: flow\n"
    "endpoint: {kind: streams, sharing: delayed}\n"
    "collective: {algorithm: double-binary-tree, slices: 4, chunk: 64KiB}\n",
    "name: a\ntopology: LeafSpine(leaves=2, hosts=4, spines=2)\nworkload: {collective: all-to-all, size: 1MB}\n"
    "network: ethernet\nendpoint: {kind: ideal}\ncollective: {algorithm: direct, chunk: 64KiB}\n",
    "name: a\ntopology: dgx1v\nworkload: {collective: broadcast, size: 300MB}\nnetwork: flow\n"
    "endpoint: {kind: streams}\ncollective: {algorithm: packed-trees, trees: {links: hybrid}}\n",
    "name: a\ntopology: dgx1v\nworkload: {collective: broadcast, size: 300MB}\nnetwork: flow\n"
    "endpoint: {kind: streams}\ncollective: {algorithm: packed-trees}\n",
    *(
        f"name: a\ntopology: {topology}\nworkload: {workload}\nnetwork: analytical\nendpoint: ideal\n"
        f"parallel: {parallel}\ncollective: {{algorithm: ring, chunks: 1}}\n"
        for topology, workload, parallel in (
            ("Torus(2,2,2)", GPT, "{}"),
            ("dgx-h100", GPT, "{}"),
            ("Torus(2,2,2)", GPT, "{tensor: 2, pipeline: 2}"),
            ("Torus(2,2)", GPT, "{pipeline: 2, schedule: interleaved, virtual: 2}"),
            ("Torus(2,2)", GPT, "{context: 2, parameter_server: central}"),
            ("Torus(2,2)", GPT.replace("vocabulary: 64", "vocabulary: 8192"), "{zero: 3}"),
            ("Torus(2,2)", GPT, "{recompute: operators}"),
            ("Torus(2,2)", GPT.replace("32,", f"32, {TYPES},", 1), "{}"),
            ("Torus(2,2)", EXPERTS, "{expert: 4}"),
        )
    ),
)
"""Experiments in which fields act that need another one."""


def base(workload: str, endpoint: str, backend: str, fabric: tuple[str, str]) -> str:
    shape, algorithm = fabric
    own = ", algorithms: {all-to-all: direct}" if "dlrm" in workload else ""
    algorithm = "direct" if "all-to-all" in workload else algorithm
    return (
        f'name: a\ntopology: "{shape}"\nnetwork: {backend}\nworkload: {workload}\nendpoint: {endpoint}\n'
        f"collective: {{algorithm: {algorithm}, chunk: 256KiB, inflight: 4{own}}}\n"
    )


def work(experiment: Experiment, preview: Preview) -> float:
    """Events of a simulation, and frames in their cost."""
    return estimate.of(experiment, preview).events + experiment.network.frames(preview)


def experiments(rotated: bool) -> Iterator[tuple[str, Variant]]:
    """Experiments of all kinds that the engine carries out; `rotated` ones have pairs of kinds that no other one has,
    as long as there are any that take no long simulations.
    """
    yield from ((text, loaded(text).variants[0]) for text in MORE)
    met: set[tuple[Any, Any]] = set()
    for workload, endpoint in itertools.product(WORKLOADS, WAYS):
        for backends in [registry.BACKENDS] if rotated else [(backend,) for backend in registry.BACKENDS]:
            kinds = [(workload, endpoint, *rest) for rest in itertools.product(backends, FABRICS)]
            for kind in sorted(kinds, key=lambda kind: len(met.intersection(itertools.combinations(kind, 2)))):
                text = base(*kind)
                try:
                    (variant,) = loaded(text).variants
                    preview = engine.preview(variant)
                except InputError:
                    continue
                if rotated and work(variant.experiment, preview) > MOST_EVENTS:
                    continue
                met.update(itertools.combinations(kind, 2))
                yield text, variant
                break


@pytest.fixture(autouse=True)
def workload_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "workload.txt").write_text(TEXT)
    row = "kind,direction,m,k,n,count,groups,dtype,bytes,time_s\nproduct,forward,64,64,64,1,1,fp16,24576,"
    (tmp_path / "kernels.csv").write_text(f"{row}3e-6\n")
    (tmp_path / "other.csv").write_text(f"{row}5e-6\n")
    (tmp_path / "ring8.json").write_text(plan.dumps(ring.all_reduce(8)))
    (tmp_path / "other.json").write_text(plan.dumps({**ring.all_reduce(8), "name": "other"}))
    monkeypatch.chdir(tmp_path)


def loaded(text: str, *settings: str) -> Any:
    overrides = [parse_override(setting) for setting in settings]
    return load(document.read(text, "file.yaml"), "file.yaml", Path(), overrides)


def fields(experiment: Experiment) -> list[str]:
    """The fields that an experiment of these kinds has and that change results, as paths."""
    found = dict.fromkeys(
        ".".join(path[:2] if path[1:2] == ("algorithms",) else path) for path, _, _ in leaves(experiment)
    )
    return [path for path in found if not is_recorded(path) and path.rpartition(".")[2] not in KINDS]


def tried(text: str, experiment: Experiment) -> list[str]:
    """The fields that are tried: those of Ethernet and of divisions, which are many, only in experiments that are made
    for them, and of others one.
    """
    of_others = experiment.network.backend != "ethernet" or text in MORE
    usual = {f"network.{name}" for name in COMMON}
    found = [path for path in fields(experiment) if of_others or not path.startswith("network.") or path in usual]
    if isinstance(experiment.workload, DividedWorkload):
        return [path for path in found if path.startswith(("parallel.", "workload.", "training."))]
    return [path for path in found if text == MORE[0] or not path.startswith("parallel.")]


def leaves(experiment: Experiment) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    yield from effect.leaves(experiment)
    yield ("collective", "algorithms"), None, None


def is_recorded(path: str) -> bool:
    return any(path == name or path.startswith(f"{name}.") for name in effect.RECORDED)


def changed(text: str, path: str) -> Variant:
    """The experiment with another value of a field. Raises [`InputError`] if it is refused."""
    value = OTHER[path]
    variant: Variant = loaded(text, f"{path}={value if isinstance(value, str) else json.dumps(value)}").variants[0]
    return variant


def settled(experiment: Experiment, path: str) -> Any:
    """What a field of Ethernet comes to; of other fields something that is equal to nothing."""
    section, _, name = path.partition(".")
    network = experiment.network
    if section != "network" or not isinstance(network, EthernetNetwork) or "." in name:
        return object()
    return network.settled(name) if name in USUAL[network.transport] else getattr(network, name)


def test_every_field_has_another_value_here() -> None:
    missing = {path for _, variant in experiments(rotated=True) for path in fields(variant.experiment)} - OTHER.keys()
    assert not missing


def test_what_is_accepted_is_told_to_the_engine_and_what_is_refused_is_named() -> None:
    ignored: list[str] = []
    for number, (text, variant) in enumerate(experiments(rotated=False)):
        told = completing.specification(variant.experiment, TEXT)
        paths = tried(text, variant.experiment)
        # Kinds stand beside each other often enough that each experiment may leave most fields to the others.
        for path in paths if text in MORE else paths[number % SHARED_BY :: SHARED_BY]:
            try:
                other = changed(text, path)
            except InputError as error:
                assert all(problem.accepted for problem in error.problems), error.as_text()
                section = path.split(".")[0]
                assert any(section in f"{p.field} {p.accepted}" for p in error.problems), (path, error.as_text())
                continue
            if path == "training.background_embedding" and variant.experiment.training.background_embedding:
                continue
            if settled(other.experiment, path) == settled(variant.experiment, path):
                continue
            if path in BY_DEFAULT and BY_DEFAULT[path](other.experiment) == BY_DEFAULT[path](variant.experiment):
                continue
            try:
                same = completing.specification(other.experiment, TEXT) == told
            except TreesError:  # of a topology without links that have names
                continue
            listed = any(f"{path} = " in line and "no effect" in line for line in assumptions.of([other]))
            ignored += [f"{path} is ignored\n{text}"] if same and not listed else []
    assert not ignored, ignored[0]


def outcome(experiment: Experiment) -> Any:
    """All that a simulation of all that is said says, but for how it is simulated; nothing if the engine refuses it."""
    from syncline.core import _core

    try:
        result = _core.run(json.dumps(completing.described(experiment, TEXT)))
    except (_core.SpecError, _core.SimulationError, TreesError):
        return None
    summary = json.loads(result["summary"])
    for name in ("events", "unfolded", "simulated_npus", "warnings", "offloaded"):
        summary.pop(name)
    return summary


def test_what_has_no_effect_changes_nothing_and_everything_else_something_somewhere() -> None:
    acted: set[str] = set()
    seen: set[str] = set()
    wrong: list[str] = []
    for number, (text, variant) in enumerate(experiments(rotated=True)):
        before = outcome(variant.experiment)
        for index, path in enumerate(tried(text, variant.experiment)):
            seen.add(path)
            if path in acted and (number + index) % IDLE_IN:
                continue
            raw = with_value(text, variant, path)
            if raw is None:
                continue
            idle = any(".".join(entry.path).startswith(path) for entry in effect.idle(raw.experiment))
            if path in acted and not idle:
                continue
            after = outcome(raw.experiment)
            if idle:
                wrong += [] if after in (before, None) else [f"{path} is said to have no effect\n{text}"]
            elif after != before and after is not None:
                acted.add(path)
    assert not wrong, wrong[0]
    # Of these each model has one, or what is left of the NPUs.
    assert seen - acted == {"training.strategy", "parallel.data"}


def with_value(text: str, variant: Variant, path: str) -> Variant | None:
    """The variant with another value, whether or not that would be refused for having no effect."""
    is_divided = isinstance(variant.experiment.workload, DividedWorkload)
    if path in FILLS or path.startswith("parallel.") or (is_divided and path.startswith("workload.")):
        try:
            return changed(text, path)
        except InputError:
            return None
    dumped = variant.experiment.model_dump(mode="json")
    *sections, name = path.split(".")
    at = dumped
    for section in sections:
        at = at[section]
    at[name] = OTHER[path]
    if path == "collective.chunks":
        dumped["collective"]["chunk"] = None
    try:
        experiment = Experiment.model_validate(dumped)
        _ = [workload.evaluated for workload in models_of(experiment.workload)]
        return replace(variant, experiment=experiment)
    except (ValueError, InputError):
        return None


SHARED: Final = (
    "name: a\ntopology: Ring(4)\nworkload: {model: resnet18, batch: 4}\ncollective: {inflight: 3}\nvariants:\n"
    "  - {name: ACE, endpoint: {kind: ace, comm_memory_bandwidth: 100GB/s}}\n"
)


def test_what_acts_in_one_variant_may_stand_above_all() -> None:
    both = loaded(SHARED + "  - {name: Ideal}\n").variants
    assert "collective.inflight = 3 has no effect: an ACE has limits of its own (ACE)" in assumptions.of(both)
    with pytest.raises(InputError) as own:
        loaded(SHARED + "  - {name: Ideal, npu: {compute: {rows: 9}}}\n")
    assert "variants.1.npu.compute.rows: this has no effect: a roofline has no array" in own.value.as_text()


def test_limits_and_facts_that_do_not_matter_are_listed() -> None:
    (ace,) = loaded(SHARED).variants
    assert "collective.inflight = 3 has no effect: an ACE has limits of its own" in assumptions.of([ace])


def test_defaults_are_harmless_wherever_they_are_written() -> None:
    assert loaded(SHARED.replace("inflight: 3", "inflight: 16, slices: auto")).variants


@pytest.mark.parametrize(("axis", "acts"), [("npu.compute.rows: [3, 4]", False), ("endpoint.fsms: [8, 16]", True)])
def test_an_axis_over_what_has_no_effect_is_refused(tmp_path: Path, axis: str, acts: bool) -> None:
    (tmp_path / "base.yaml").write_text(SHARED.replace("collective: {inflight: 3}\n", ""))
    (tmp_path / "s.sweep.yaml").write_text(f"name: s\nbase: base.yaml\naxes: {{{axis}}}\n")
    sweep = file.load(tmp_path / "s.sweep.yaml", "s.sweep.yaml")
    if acts:
        assert len(points.simulations(sweep)[0]) == 2
        return
    with pytest.raises(InputError) as refused:
        points.simulations(sweep)
    assert "this has no effect: a roofline has no array" in refused.value.as_text()


def test_the_scale_of_compute_holds_for_text_workloads() -> None:
    times = [
        engine.run(loaded(base("{astra_text: workload.txt}", "ideal", "analytical", FABRICS[0]), *setting).variants[0])
        for setting in ((), ("training.compute_scale=2.5",))
    ]
    assert times[1].summary["compute_ps"] == pytest.approx(2.5 * times[0].summary["compute_ps"], rel=1e-9)
