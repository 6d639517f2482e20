"""What is mutated: small files of every format, and results that commands have written from them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from .case import Corpus

SMALL: Final = """\
name: small
topology: "Ring(4, rate=200GB/s)_Ring(2)"
workload: {model: resnet18, batch: 8}
training: {iterations: 1}
network: analytical
output: {window: 50us}
variants:
  - name: SMs
    endpoint: {kind: baseline, comm_memory_bandwidth: 450GB/s, comm_sms: 6}
  - name: Engine
    endpoint: {kind: ace, comm_memory_bandwidth: 128GB/s}
    network: packet
  - name: Ideal
    endpoint: ideal
"""
ONE: Final = 'name: one\ntopology: "Ring(4)"\nworkload: {collective: all-reduce, size: 1MB}\nnetwork: analytical\n'
MACHINE: Final = """\
name: machine
topology: {file: links.yaml}
gpus: [0, 1]
workload: {collective: broadcast, size: 64KiB, root: 1}
network: {backend: flow}
collective: {algorithm: auto, slices: 4}
slow_links: []
"""
TEXT: Final = 'name: text\ntopology: "Torus(2,2)"\nworkload: {astra_text: w.txt, element: 4B}\nnetwork: flow\n'
WORKLOAD: Final = """\
DATA
4
stem -1 24000 NONE 0 0 NONE 0 31000 ALLREDUCE 40000 1200
block -1 36000 NONE 0 35000 NONE 0 41000 ALLREDUCE 2400000 2100
wide -1 52000 NONE 0 50000 NONE 0 57000 ALLREDUCE 9600000 3900
head -1 9000 NONE 0 9500 NONE 0 12000 ALLREDUCE 8200000 3500
"""
SWEEP: Final = """\
name: space
description: what is varied
base: one.yaml
set: {collective.algorithm: ring}
axes:
  workload.size: [64KiB, 1MB]
  network.backend: [analytical, flow]
zip:
  - {collective.chunks: [1, 2], collective.inflight: [1, 2]}
"""
TRAINING: Final = """\
name: training
base: small.yaml
variants: [SMs, Engine]
axes: {npu.sms: [40, 80], endpoint.comm_memory_bandwidth: [64GB/s, 128GB/s]}
"""
FIGURE: Final = """\
name: shapes
title: What chunks cost
source: nobody
sweeps: [space.sweep.yaml]
columns: 2
panels:
  - kind: lines
    title: Times
    where: {network.backend: flow}
    x: workload.size
    y: time_s
    series: collective.chunks
    unit: us
    log: true
    log_y: true
    published: [{x: 1MB, series: 2, value: 30, label: them}]
  - kind: bars
    title: Relative
    x: workload.size
    series: network.backend
    y: time_s
    mean: true
    relative_to: {network.backend: flow}
    speedup: true
"""
HEAT: Final = """\
name: heat
title: Two axes
sweeps: [space.sweep.yaml]
panels:
  - {kind: heat, title: Map, x: workload.size, series: network.backend, y: efficiency, mean: true}
  - kind: scatter
    title: Points
    x: bytes_sent_per_npu
    y: time_s
    each: [workload.size, network.backend]
    mean: true
    pareto: true
"""
RUNS: Final = """\
name: runs
title: A run
panels:
  - {kind: timeline, title: Busy, run: small.yaml, variant: Engine, columns: {links: links, compute: NPU}, points: 50}
  - {kind: layers, title: Layers, run: small.yaml, variants: [SMs, Engine], y: exposed_s, unit: us}
"""
FORMULA: Final = """\
name: formula
title: By a formula
closed_forms:
  - model: all-reduce-steps
    set: {size: 16MB, shape: [4, 4], links: 4, link_rate: 25GB/s}
    cases: {as given: {}, faster: {link_rate: 75GB/s}}
    axes: {cores: [1, 2, 4]}
panels: [{kind: lines, title: Steps, x: cores, series: variant, y: time_s}]
"""
LINKS: Final = """\
nodes: [A, B, {name: S, kind: switch}]
defaults: {rate: 25GB/s, latency: 1us}
links:
  - {from: A, to: S}
  - {from: B, to: S, links: 2, class: NVLink, efficiency: 94%}
"""
MATRIX: Final = """\
\tGPU0\tGPU1\tGPU2\tGPU3\tmlx5_0\tCPU Affinity
GPU0\t X \tNV1\tNV2\tSYS\tPIX\t0-19
GPU1\tNV1\t X \tNV1\tNV2\tPHB\t0-19
GPU2\tNV2\tNV1\t X \tNV1\tSYS\t20-39
GPU3\tSYS\tNV2\tNV1\t X \tNODE\t20-39
mlx5_0\tPIX\tPHB\tSYS\tNODE\t X

Legend:
  X    = Self
"""
NCCL: Final = """\
<system version="1">
  <cpu numaid="0" affinity="0000ffff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="85">
    <pci busid="0000:17:00.0" class="0x060400" vendor="0x1000" device="0xc010" link_speed="16 GT/s" link_width="16">
      <pci busid="0000:18:00.0" class="0x030200" vendor="0x10de" device="0x20b0" link_speed="16 GT/s" link_width="16">
        <gpu dev="0" sm="80" rank="0" gdr="1">
          <nvlink target="0000:19:00.0" count="6" tclass="0x030200"/>
        </gpu>
      </pci>
      <pci busid="0000:19:00.0" class="0x030200" vendor="0x10de" device="0x20b0" link_speed="16 GT/s" link_width="16">
        <gpu dev="1" sm="80" rank="1" gdr="1">
          <nvlink target="0000:18:00.0" count="6" tclass="0x030200"/>
        </gpu>
      </pci>
      <pci busid="0000:1a:00.0" class="0x020700" vendor="0x15b3" device="0x101b" link_speed="16 GT/s" link_width="16">
        <nic><net name="mlx5_0" dev="0" speed="200000" port="1" guid="0x1" maxconn="131072" gdr="1"/></nic>
      </pci>
    </pci>
  </cpu>
</system>
"""
TREE: Final = """\
# A tree of two tiers
Nodes 8
Tiers 2
Podsize 8

Tier 0
Downlink_Speed_Gbps 100
Radix_Down 4
Radix_Up 2
Downlink_Latency_ns 500
Oversubscribed 2
Queue_Up 100000

Tier 1
Downlink_Speed_Gbps 100
Radix_Down 2
Downlink_Latency_ns 500
Switch_Latency_ns 100
"""
FLOWS: Final = """\
Nodes 8
Connections 4
Triggers 2
0->1 id 1 start 0 size 20000 send_done_trigger 1
1->2 id 2 start 1000000.0 size 20000 recv_done_trigger 2 prio 1
0->3 id 3 trigger 1 size 1000
4->5 id 4 trigger 2 size 1
trigger id 1 oneshot
trigger id 2 barrier count 1
"""
GIVEN: Final = """\
Nodes 8
Connections 2
0->1 start 0 size 20000
7->3 id 9 start 2000000 size 1
"""
POINTS: Final = "# sizes\n0 0\n1000, 50.5\n20000 97\n30000,100\n"
KERNELS: Final = """\
kind,direction,m,k,n,count,groups,height,width,window,stride,padding,dtype,bytes,time_s,device
product,forward,64,64,64,1,1,0,0,0,0,0,fp16,24576,3e-6,GPU
product,weight-grad,128,64,32,2,1,0,0,0,0,0,fp16,49152,0.000004,GPU
attention-causal,backward,64,32,64,8,2,,,,,,bf16,98304,2.5e-05,GPU
convolution,forward,24,36,6,1,1,5,7,3,2,1,fp16,1144,7e-6,GPU
max-pool,backward,8,0,12,1,1,5,7,2,2,0,fp16,15744,7e-6,GPU
add,forward,64,0,64,1,1,0,0,0,0,0,fp16,24576,2e-6,GPU
"""
COMPUTE: Final = """\
name: compute
topology: Ring(2)
workload: {model: resnet18, batch: 2}
network: analytical
npu: {compute: {kind: table, table: kernels.csv, launch: 2us, sparsity: "2:4"}}
"""
MODULE: Final = """\
{"format": "syncline-fx", "version": 1, "module": "Net", "operators": [
 {"name": "up", "op": "linear", "layer": "up", "inputs": [[8, 16]], "output": [8, 64], "weight": [64, 16],
  "parameters": 1088, "shared": 64, "element": 4, "groups": 1},
 {"name": "act", "op": "elementwise", "layer": "act", "inputs": [[8, 64]], "output": [8, 64], "weight": null,
  "parameters": 0, "element": 4, "groups": 1}]}
"""
TRAFFIC: Final = """\
name: traffic
topology: {file: tree.topo}
workload: {graph: flows.cm}
endpoint: {kind: ideal}
network:
  backend: ethernet
  capture: ["npu 1", "switch 0: host to NPU 1"]
  background:
    - {load: 3%, sizes: points.csv, from: [npu 1, npu 2]}
    - {matrix: given.cm}
    - {from: npu 3, to: npu 0, size: 20kB, start: 1us, repeat: 2, every: 5us}
"""
SCHEDULE: Final = """\
{"format": "syncline-plan", "version": 1, "name": "two", "collective": "allgather", "in_place": false,
 "protocol": "Simple", "ranks": [
  {"id": 0, "input_chunks": 1, "output_chunks": 2, "scratch_chunks": 0, "thread_blocks": [
   {"id": 0, "send": 1, "recv": 1, "channel": 0, "steps": [
    {"id": 0, "type": "s", "src": {"buffer": "i", "offset": 0}, "count": 1},
    {"id": 1, "type": "r", "dst": {"buffer": "o", "offset": 1}, "count": 1},
    {"id": 2, "type": "cpy", "src": {"buffer": "i", "offset": 0}, "dst": {"buffer": "o", "offset": 0}, "count": 1}]}]},
  {"id": 1, "input_chunks": 1, "output_chunks": 2, "scratch_chunks": 0, "thread_blocks": [
   {"id": 0, "send": 0, "recv": 0, "channel": 0, "steps": [
    {"id": 0, "type": "s", "src": {"buffer": "i", "offset": 0}, "count": 1},
    {"id": 1, "type": "r", "dst": {"buffer": "o", "offset": 0}, "count": 1}]},
   {"id": 1, "send": null, "recv": null, "channel": 0, "steps": [
    {"id": 0, "type": "nop", "depends_on": {"thread_block": 0, "step": 0}},
    {"id": 1, "type": "cpy", "src": {"buffer": "i", "offset": 0}, "dst": {"buffer": "o", "offset": 1}, "count": 1}]}]}
 ]}
"""
PLAN: Final = """\
{"format": "syncline-plan", "version": 2, "name": "grid", "collective": "allreduce", "grid": [2, 2],
 "composition": "all-scattered", "programs": [
  {"collective": "reduce_scatter", "blocks": 2, "around": true, "rotates": true,
   "ranks": [[[{"steps": [{"op": "s", "block": 1, "to": 1, "into": [0, 1]}, {"op": "rrc", "from": 1}]}]]]},
  {"collective": "reduce_scatter", "dim": 1, "blocks": 2, "rotates": true,
   "ranks": [[[{"steps": [{"op": "s", "block": 1, "to": 1, "into": [0, 1]}, {"op": "rrc", "from": 1}]}]]]},
  {"collective": "allgather", "dim": 1, "blocks": 2, "one_by_one": true, "ranks": [
   [[{"steps": [{"op": "s", "block": 0, "to": 1, "into": [0, 1], "way": {"choice": 1}},
                {"op": "r", "block": 1, "from": 1}]}]],
   [[{"steps": [{"op": "s", "block": 1, "to": 0, "into": [0, 1]}]}, {"steps": [{"op": "r", "block": 0, "from": 0}]}],
    [{"times": 2, "steps": [{"op": "nop", "after": [0, 0], "next": {"after": 1}}]}]]]},
  {"collective": "allgather", "blocks": 2, "rotates": true,
   "ranks": [[[{"steps": [{"op": "s", "to": 1, "into": [0, 1]}, {"op": "r", "block": 1, "from": 1}]}]]],
   "down": [[[{"steps": [{"op": "s", "to": 1, "into": [0, 1]}, {"op": "r", "block": 1, "from": 1}]}]]]}]}
"""
MSCCLPP: Final = """\
{"name": "two", "collective": "allgather", "protocol": "Simple", "inplace": false, "gpus": [
 {"id": 0, "input_chunks": 1, "output_chunks": 2, "scratch_chunks": 1,
  "channels": [{"channel_type": "memory", "connected_to": [1]}], "semaphores": [],
  "remote_buffers": [{"rank": 1, "type": "s", "access_channel_types": ["memory"]}],
  "threadblocks": [
   {"id": 0, "channels": [{"channel_type": "memory", "channel_ids": [0]}],
    "remote_buffer_refs": [{"access_channel_type": "memory", "remote_buffer_ids": [0]}],
    "ops": [
     {"name": "signal", "channel_ids": [0], "channel_type": "memory", "syncline": {"start": true}},
     {"name": "wait", "channel_ids": [0], "channel_type": "memory", "syncline": {"start": true}},
     {"name": "nop"},
     {"name": "put", "src_buff": [{"type": "i", "index": 0, "size": 1}],
      "dst_buff": [{"buffer_id": 0, "index": 0, "size": 1}], "channel_type": "memory"},
     {"name": "nop"},
     {"name": "signal", "channel_ids": [0], "channel_type": "memory"},
     {"name": "wait", "channel_ids": [0], "channel_type": "memory"},
     {"name": "barrier", "barrier_id": 0, "num_threadblocks": 2}
    ]},
   {"id": 1, "ops": [
     {"name": "copy", "src_buff": [{"type": "i", "index": 0, "size": 1}],
      "dst_buff": [{"type": "o", "index": 0, "size": 1}]},
     {"name": "barrier", "barrier_id": 0, "num_threadblocks": 2},
     {"name": "copy", "src_buff": [{"type": "s", "index": 0, "size": 1}],
      "dst_buff": [{"type": "o", "index": 1, "size": 1}]}
    ]}
  ]},
 {"id": 1, "input_chunks": 1, "output_chunks": 2, "scratch_chunks": 1,
  "channels": [{"channel_type": "memory", "connected_to": [0]}], "semaphores": [],
  "remote_buffers": [{"rank": 0, "type": "s", "access_channel_types": ["memory"]}],
  "threadblocks": [
   {"id": 0, "channels": [{"channel_type": "memory", "channel_ids": [0]}],
    "remote_buffer_refs": [{"access_channel_type": "memory", "remote_buffer_ids": [0]}],
    "ops": [
     {"name": "signal", "channel_ids": [0], "channel_type": "memory", "syncline": {"start": true}},
     {"name": "wait", "channel_ids": [0], "channel_type": "memory", "syncline": {"start": true}},
     {"name": "nop"},
     {"name": "put", "src_buff": [{"type": "i", "index": 0, "size": 1}],
      "dst_buff": [{"buffer_id": 0, "index": 0, "size": 1}], "channel_type": "memory"},
     {"name": "nop"},
     {"name": "signal", "channel_ids": [0], "channel_type": "memory"},
     {"name": "wait", "channel_ids": [0], "channel_type": "memory"},
     {"name": "barrier", "barrier_id": 0, "num_threadblocks": 2}
    ]},
   {"id": 1, "ops": [
     {"name": "copy", "src_buff": [{"type": "i", "index": 0, "size": 1}],
      "dst_buff": [{"type": "o", "index": 1, "size": 1}]},
     {"name": "barrier", "barrier_id": 0, "num_threadblocks": 2},
     {"name": "copy", "src_buff": [{"type": "s", "index": 0, "size": 1}],
      "dst_buff": [{"type": "o", "index": 0, "size": 1}]}
    ]}
  ]}
]}
"""

XML: Final = """\
<algo name="two" proto="Simple" nchannels="2" nchunksperloop="2" ngpus="2" coll="allreduce" inplace="1" outofplace="0"
      minBytes="0" maxBytes="1073741824">
  <gpu id="0" i_chunks="2" o_chunks="2" s_chunks="1">
    <tb id="0" send="1" recv="1" chan="0">
      <step s="0" type="s" srcbuf="i" srcoff="0" dstbuf="o" dstoff="-1" cnt="1" depid="-1" deps="-1" hasdep="0"/>
      <step s="1" type="r" srcbuf="i" srcoff="-1" dstbuf="s" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="1"/>
      <step s="2" type="r" srcbuf="i" srcoff="-1" dstbuf="i" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"/>
    </tb>
    <tb id="1" send="1" recv="-1" chan="1">
      <step s="0" type="nop" srcbuf="i" srcoff="-1" dstbuf="o" dstoff="-1" cnt="0" depid="0" deps="0" hasdep="0"/>
      <step s="1" type="re" srcbuf="s" srcoff="0" dstbuf="i" dstoff="1" cnt="1" depid="0" deps="1" hasdep="1"/>
      <step s="2" type="s" srcbuf="i" srcoff="1" dstbuf="o" dstoff="-1" cnt="1" depid="-1" deps="-1" hasdep="0"/>
    </tb>
  </gpu>
  <gpu id="1" i_chunks="2" o_chunks="2" s_chunks="0">
    <tb id="0" send="0" recv="0" chan="0">
      <step s="0" type="s" srcbuf="i" srcoff="1" dstbuf="o" dstoff="-1" cnt="1" depid="-1" deps="-1" hasdep="1"/>
      <step s="1" type="rrcs" srcbuf="i" srcoff="0" dstbuf="i" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"/>
    </tb>
    <tb id="1" send="-1" recv="0" chan="1">
      <step s="0" type="r" srcbuf="i" srcoff="-1" dstbuf="i" dstoff="1" cnt="1" depid="0" deps="0" hasdep="0"/>
    </tb>
  </gpu>
</algo>
"""
MEASURED: Final = """\
# nThread 1 nGpus 8 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 5 iters: 20
#
# Using devices
#  Rank  0 Group  0 Pid  1 on  node device  0 [0x07] NVIDIA A100-SXM4-80GB
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
        1024           256     float     sum      -1    27.19    0.04    0.07      0    26.47    0.04    0.07      0
       65536         16384     float     sum      -1    32.48    2.02    3.53      0    31.92    2.05    3.59      0
     1048576        262144     float     sum      -1    57.20   18.33   32.08      0    56.78   18.47   32.32      0
    16777216       4194304     float     sum      -1    180.3   93.06  162.86      0    179.0   93.74  164.05      0
   134217728      33554432     float     sum      -1   1084.4  123.77  216.60      0   1084.6  123.75  216.57      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 83.1
"""
TABLE: Final = (
    "# collective: all-reduce\nsize_bytes,time_us\n1024,27\n65536,32\n1048576,57\n16777216,180\n134217728,1084\n"
)

FILES: Final = {
    "small.yaml": SMALL,
    "one.yaml": ONE,
    "machine.yaml": MACHINE,
    "text.yaml": TEXT,
    "w.txt": WORKLOAD,
    "space.sweep.yaml": SWEEP,
    "training.sweep.yaml": TRAINING,
    "shapes.figure.yaml": FIGURE,
    "heat.figure.yaml": HEAT,
    "runs.figure.yaml": RUNS,
    "formula.figure.yaml": FORMULA,
    "links.yaml": LINKS,
    "matrix.txt": MATRIX,
    "tree.topo": TREE,
    "flows.cm": FLOWS,
    "given.cm": GIVEN,
    "points.csv": POINTS,
    "traffic.yaml": TRAFFIC,
    "kernels.csv": KERNELS,
    "compute.yaml": COMPUTE,
    "nccl.xml": NCCL,
    "plan.json": PLAN,
    "schedule.json": SCHEDULE,
    "plan.xml": XML,
    "mscclpp.json": MSCCLPP,
    "module.json": MODULE,
    "measured.log": MEASURED,
    "measured.csv": TABLE,
}


def inputs(*names: str) -> dict[str, bytes]:
    """Files of the corpus."""
    return {name: FILES[name].encode() for name in names}


def build(folder: Path) -> Corpus:
    """Writes the results that are damaged: runs, tables of sweeps and their journals, and constants."""
    import contextlib
    import io
    import os

    from syncline.commands import cli

    (folder / "inputs").mkdir(parents=True)
    for name, text in FILES.items():
        (folder / "inputs" / name).write_text(text)
    before = Path.cwd()
    os.chdir(folder / "inputs")
    try:
        for line in (
            *(["run", f"{name}.yaml", "--out", f"../runs/{name}"] for name in ("small", "one", "text")),
            *(["sweep", f"{name}.sweep.yaml", "--out", f"{name}.parquet"] for name in ("space", "training")),
            ["calibrate", "measured.csv", "--machine", "dgx-a100", "--out", "mine.yaml"],
        ):
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
                status = cli.run([*line, "-q", *(["--threads", "1"] if line[0] != "calibrate" else [])])
            assert status == 0, (line, said.getvalue())
    finally:
        os.chdir(before)
    (folder / "tables").mkdir()
    for path in (folder / "inputs").glob("*.parquet*"):
        path.rename(folder / "tables" / path.name)
    return Corpus(folder)
