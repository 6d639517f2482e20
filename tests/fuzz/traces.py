"""Damaged traces of other programs, imported, and graphs of runs, exported and imported again."""

from __future__ import annotations

import gzip
import json
from functools import cache
from random import Random
from typing import Any, Final

from . import mutation
from .case import Case, Corpus, generator
from .corpus import FILES, inputs
from .experiments import topology

NPUS: Final = 2
NETWORK: Final = "topology: [ Ring ]\nnpus_count: [ 2 ]\nbandwidth: [ 50.0 ]\nlatency: [ 500.0 ]\n"
SYSTEM: Final = """\
{"scheduling-policy": "LIFO", "endpoint-delay": 10, "active-chunks-per-dimension": 1, "preferred-dataset-splits": 4,
 "all-reduce-implementation": ["ring"], "all-gather-implementation": ["ring"], "all-to-all-implementation": ["direct"],
 "collective-optimization": "localBWAware", "local-mem-bw": 1600, "roofline-enabled": 0, "peak-perf": 900}
"""
MEMORY: Final = '{"memory-type": "PER_NPU_MEMORY_EXPANSION", "remote-mem-latency": 100, "remote-mem-bw": 10}\n'
GROUPS: Final = '{"1": [0, 1], "2": [1, 0]}\n'
TRAINING: Final = """\
name: trained
topology: "Ring(2)"
workload: {model: resnet18, batch: 1}
training: {iterations: 1}
network: analytical
"""
_LENGTHS: Final = (b"\x80" * 9 + b"\x01", b"\xff" * 11, b"\xff\xff\xff\xff\x0f", b"\x00", b"\x7f", b"\x80\x80\x00")


@cache
def chakra(npu: int) -> bytes:
    """A trace with nodes of every type."""
    from syncline.importers import chakra_format as form

    def node(number: int, kind: str, after: list[int], **attrs: Any) -> Any:
        kinds = {bool: "bool", int: "int64", str: "string", list: "bool"}
        typed = {name: (kinds[type(value)], value) for name, value in attrs.items()}
        made = form.node(number, f"n{number}", kind, ([], after), typed)
        made.start_time_micros, made.duration_micros = 10 * number, number
        return made

    peer = 1 - npu
    nodes = [
        node(0, "METADATA_NODE", []),
        node(1, "COMP_NODE", [0], num_ops=1000, tensor_size=100),
        node(2, "COMP_NODE", [1], is_cpu_op=True),
        node(3, "COMM_COLL_NODE", [1], comm_type=0, comm_size=4096, involved_dim=[True, True]),
        node(4, "COMM_COLL_NODE", [3], comm_type=2, comm_size=100, pg_name="1"),
        node(5, "COMM_SEND_NODE", [2], comm_dst=peer, comm_size=64, comm_tag=1),
        node(6, "COMM_RECV_NODE", [], comm_src=peer, comm_size=64, comm_tag=1),
        node(7, "MEM_LOAD_NODE", [6], tensor_size=10),
        node(8, "INVALID_NODE", [7]),
        node(9, "COMM_COLL_NODE", [8, 4], comm_type=9, comm_size=1),
    ]
    return form.written([form.metadata({}), *nodes])


def _damaged(chance: Random, content: bytes) -> bytes:
    """A damaged trace: bytes, lengths, the end, or what is compressed."""
    kind = chance.randrange(6)
    if kind == 0:
        return content[: chance.randrange(len(content))]
    if kind == 1:
        at = chance.randrange(len(content))
        return content[:at] + chance.choice(_LENGTHS) + content[at + chance.choice((0, 1)) :]
    if kind == 2:
        packed = gzip.compress(content, mtime=0)
        return mutation.data(chance, packed) if chance.random() < 0.7 else packed
    return mutation.data(chance, content)


def _messages(chance: Random, npu: int) -> bytes:
    """A trace whose nodes have other values, and which is well formed."""
    from syncline.importers import chakra_format as form

    metadata, placed = form.read(chakra(npu), "corpus")
    nodes = [node for _, node in placed]
    for _ in range(chance.choice((1, 1, 2, 4))):
        node = chance.choice(nodes)
        kind = chance.randrange(7)
        if kind == 0:
            node.data_deps.append(chance.choice((0, 3, 9, 99, 2**63)))
        elif kind == 1:
            node.type = chance.choice((-1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 2**31 - 1))
        elif kind == 2:
            node.id = chance.choice((0, 1, 9, 2**64 - 1))
        elif kind == 3:
            times = [chance.choice((0, 1, 2**63, 2**64 - 1)) for _ in range(2)]
            node.start_time_micros, node.duration_micros = times
        elif kind == 4 and len(nodes) > 1:
            nodes.remove(node)
        elif kind == 5:
            added = node.attr.add(name=chance.choice(("comm_size", "comm_type", "pg_name", "syncline_ps", "comm_dst")))
            added.int64_val = chance.choice((-1, 0, 1, 5, 2**62, 2**63 - 1))
        else:
            added = node.attr.add(name=chance.choice(("is_cpu_op", "num_ops", "pg_name", "involved_dim", "comm_tag")))
            added.string_val = chance.choice(("", "1", "x" * 300, "\u202e"))
    if chance.random() < 0.1:
        added = metadata.attr.add(name="syncline_families")
        added.string_val = chance.choice(("{}", "[", '{"a": {"members": {"grid": [0], "along": [1]}}}', "null"))
    return form.written([metadata, *nodes])


@generator("chakra-trace", 4)
def chakra_trace(chance: Random, _: Corpus) -> Case:
    """Chakra traces of two NPUs, one of them damaged, imported and run."""
    files = {f"t.{npu}.et": chakra(npu) for npu in range(NPUS)}
    npu = chance.randrange(NPUS)
    change = _damaged(chance, chakra(npu)) if chance.random() < 0.5 else _messages(chance, npu)
    if chance.random() < 0.7:
        files[f"t.{npu}.et"] = change
    if chance.random() < 0.2:
        files[f"t.{1 - npu}.et"] = _messages(chance, 1 - npu)
    files["groups.json"] = GROUPS.encode() if chance.random() < 0.8 else mutation.text(chance, GROUPS).encode()
    flags = ["--groups", "groups.json"]
    if chance.random() < 0.3:
        flags += ["--topology", chance.choice(("Ring(2)", "Ring(2)_Switch(2)", topology(chance)))]
    flags += chance.choice(([], ["--times", "computed"], ["--backend", "analytical"], ["--json"]))
    return Case([["import", "chakra", "t", "-o", "o", *flags], ["run", "o/experiment.yaml", "--json"]], files)


@generator("astra-directory", 3)
def astra_directory(chance: Random, _: Corpus) -> Case:
    """A directory of ASTRA-sim with a damaged file."""
    files = {f"d/t.{npu}.et": chakra(npu) for npu in range(NPUS)}
    texts = {"d/n.yml": NETWORK, "d/s.json": SYSTEM, "d/m.json": MEMORY, "d/g.json": GROUPS}
    files |= {name: text.encode() for name, text in texts.items()}
    name = chance.choice(list(files))
    if chance.random() < 0.3:
        pass
    elif name not in texts:
        files[name] = _damaged(chance, files[name])
    elif name != "d/n.yml" and chance.random() < 0.5:
        files[name] = json.dumps(mutation.document(chance, json.loads(texts[name]))).encode()
    else:
        files[name] = mutation.text(chance, texts[name], tuple(texts.values())).encode("utf-8", "replace")
    flags = chance.choice(([], ["--json"], ["--backend", "flow"], ["--network", name], ["--system", name]))
    return Case([["import", "astra", "d", "-o", "o", *flags], ["run", "o/experiment.yaml", "--json"]], files)


def _event(category: str, name: str, start: float, dur: float, thread: int, **args: Any) -> dict[str, Any]:
    """An event of a profile."""
    times = {"ts": start, "dur": dur}
    return {"ph": "X", "cat": category, "name": name, "pid": 0, "tid": thread, **times, "args": args}


@cache
def _profile() -> dict[str, Any]:
    """A profile of one of two ranks."""
    event = _event
    said = {"Collective name": "allreduce", "In msg nelems": 100, "Out msg nelems": 100, "dtype": "Float"}
    group = {"Process Group Name": "0", "Process Group Ranks": "[0, 1]", "Group size": 2}
    events = [
        event("cuda_runtime", "cudaLaunchKernel", 1, 2, 1, correlation=1),
        event("kernel", "gemm", 5, 9.5, 7, stream=7, correlation=1),
        event("kernel", "ncclDevKernel_AllReduce", 15, 5, 20, stream=20, correlation=2, **said, **group),
        event("cuda_sync", "Stream Wait Event", 21, 0, 7, stream=7, wait_on_stream=20),
        event("kernel", "step", 22, 3, 7, stream=7, correlation=3),
        event("cuda_runtime", "cudaDeviceSynchronize", 6, 20, 1),
    ]
    config = [{"pg_name": "0", "pg_desc": "default_pg", "ranks": [0, 1], "pg_size": 2}]
    info = {"backend": "nccl", "rank": 0, "world_size": 2, "pg_config": config}
    return {"schemaVersion": 1, "distributedInfo": info, "traceEvents": events}


@cache
def _profile_of_steps() -> dict[str, Any]:
    """A profile of one of two ranks with iterations, a CUDA graph whose kernels overlap, two threads that launch, waits
    for events, and kernels of NCCL of which only some say what they are.
    """
    said = {"Collective name": "_allgather_base", "In msg nelems": 8, "Out msg nelems": 16, "dtype": "BFloat16"}
    group = {"Process Group Ranks": "[0, 1]", "Group size": 2}
    waits = {"stream": 7, "wait_on_stream": 20, "wait_on_cuda_event_record_corr_id": 4, "correlation": 5}
    events: list[dict[str, Any]] = []
    for step in range(3):
        at, first = 100.0 * step, 10 * step
        events += [
            _event("user_annotation", f"ProfilerStep#{step + 5}", at, 90, 1),
            _event("gpu_user_annotation", f"ProfilerStep#{step + 5}", at + 20, 90, 7),
            _event("cuda_runtime", "cudaGraphLaunch", at + 1, 9, 1, correlation=first + 1),
            *(_event("kernel", f"k{n}", at + 20 + 5 * n, 12, 7, stream=7, correlation=first + 1) for n in range(4)),
            _event("cuda_driver", "cuLaunchKernelEx", at + 12, 3, 2, correlation=first + 2),
            _event("gpu_memcpy", "Memcpy HtoD", at + 14, 30, 8, stream=8, correlation=first + 2, device=0),
            _event("cpu_op", "record_param_comms", at + 15, 4, 1, **{"External id": first + 3}, **said, **group),
            _event("cuda_runtime", "cudaLaunchKernel", at + 16, 2, 1, correlation=first + 3),
            _event("kernel", "ncclKernel_AllGather", at + 50, 20, 20, stream=20, correlation=first + 3)
            | {"args": {"stream": 20, "correlation": first + 3, "External id": first + 3}},
            _event("kernel", "ncclDevKernel_Generic", at + 70, 10, 20, stream=20),
            _event("cuda_runtime", "cudaEventRecord", at + 19, 1, 1, correlation=first + 4),
            _event("cuda_runtime", "cudaStreamWaitEvent", at + 21, 1, 1, correlation=first + 5),
            _event("cuda_sync", "Stream Wait Event", at + 21, 0, 7, **waits),
            _event("kernel", "step", at + 80, 15, 7, stream=7, correlation=first + 6),
            _event("cuda_runtime", "cudaEventSynchronize", at + 30, 40, 2, correlation=first + 7),
        ]
    return {"schemaVersion": 1, "distributedInfo": {"rank": 0, "world_size": 2}, "traceEvents": events}


@generator("kineto-profile", 4)
def kineto_profile(chance: Random, _: Corpus) -> Case:
    """A profile of PyTorch, damaged, with its other rank or without."""
    own: Any = chance.choice((_profile, _profile_of_steps))()
    files = {}
    if chance.random() < 0.5:
        files["p.1.json"] = json.dumps({**own, "distributedInfo": {**own["distributedInfo"], "rank": 1}}).encode()
    content = json.dumps(mutation.document(chance, own)).encode()
    if chance.random() < 0.4:
        content = mutation.text(chance, json.dumps(own, indent=1)).encode("utf-8", "replace")
    if chance.random() < 0.2:
        content = mutation.data(chance, gzip.compress(json.dumps(own).encode(), mtime=0))
    if chance.random() < 0.03:
        content = b"[" * 50_000
    files["p.0.json"] = json.dumps(own).encode() if chance.random() < 0.2 else content
    flags = chance.choice(([], ["--json"], ["--npus", chance.choice(("2", "0", "9"))], ["--topology", "Switch(2)"]))
    return Case([["import", "kineto", "p", "-o", "o", *flags], ["run", "o/experiment.yaml", "--json"]], files)


@generator("fx-description", 2)
def fx_description(chance: Random, _: Corpus) -> Case:
    """A description of a module."""
    content = json.dumps(mutation.document(chance, json.loads(FILES["module.json"]))).encode()
    if chance.random() < 0.3:
        content = mutation.text(chance, FILES["module.json"]).encode("utf-8", "replace")
    flags = chance.choice(([], ["--npus", chance.choice(("1", "2", "4", "-1"))], ["--json"]))
    lines = [["import", "fx", "m.json", "-o", "o", *flags], ["run", "o/experiment.yaml", "--json"]]
    return Case(lines, {"m.json": content})


@generator("export-trace", 3)
def export_trace(chance: Random, _: Corpus) -> Case:
    """Traces of runs, damaged or not, imported again."""
    files = inputs("one.yaml", "small.yaml", "text.yaml", "w.txt") | {"trained.yaml": TRAINING.encode()}
    name = chance.choice(("one.yaml", "trained.yaml", "text.yaml", "small.yaml"))
    if chance.random() < 0.3:
        files[name] = mutation.text(chance, files[name].decode()).encode("utf-8", "replace")
    form = chance.choice(("chakra", "chakra", "kineto", "et"))
    flags = ["--variant", chance.choice(("SMs", "Ideal", "none"))] if name == "small.yaml" else []
    line = ["export-trace", name, "--format", form, "-o", "t", *flags, *chance.choice(([], ["--json"]))]
    again = ["import", form, "t", "-o", "o", "--json", *(["--like", name] if chance.random() < 0.6 else [])]
    return Case([line, again, ["run", "o/experiment.yaml", "--json"]], files)
