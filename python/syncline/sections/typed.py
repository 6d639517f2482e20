"""Experiments as objects: what a file accepts, with completion in editors.

`python -m lab.reference.typed` has written this module from the JSON Schema of experiment files; it is not edited by
hand. Sections are mappings as in a file, which these types describe; a section may also be made by its type, as
`AceEndpoint(kind="ace", fsms=8)`, which is the same mapping.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict


class AceEndpoint(TypedDict, total=False):
    """The accelerator collectives engine. Defaults: the ACE paper (section IV-I and Table V)."""

    kind: Literal["ace"]
    """Which endpoint model."""
    comm_memory_bandwidth: str
    """Main-memory bandwidth set aside for ACE's DMAs."""
    comm_sms: int
    """SMs set aside for communication; ACE needs none."""
    charge_writes: bool
    """Charge memory writes as well as reads (they are recorded either way)."""
    buses: Buses
    """The buses to the network and to memory, which the DMAs cross."""
    clock: str | None
    """Clock of the engine; that of the NPU if not given."""
    sram: str
    """SRAM in all banks."""
    banks: int
    """Banks of the SRAM; each reads and writes one port width per cycle."""
    port_width: str
    """Bytes per cycle of SRAM ports, ALUs and internal buses."""
    alus: int
    """Reduction units."""
    fsms: int
    """Finite state machines that run chunks."""
    fsm_split: Literal["even", "need"]
    """How FSMs are divided among the phases of a collective: `even`ly, or in proportion to what each phase `need`s
    to fill its links, one at least.
    """
    message: str
    """The largest message; longer blocks are cut into several."""
    port_buffer: str
    """Buffer of each output port."""
    transit: Literal["endpoint", "network"] | None
    """Who forwards packets of an all-to-all for distant NPUs where NPUs lie between: the engines, through their
    SRAM, or the routers of the network. If not given, `endpoint` where links lead to NPUs only (products of
    rings and fully connected groups), else `network`.
    """


class AnalyticalNetwork(TypedDict, total=False):
    """Hop latency and serialisation at the sender's port; no contention inside the network."""

    backend: Literal["analytical"]
    """Which network model."""
    posting: Literal["rotated", "sequential", "random"]
    """The order in which a rank of a direct algorithm posts its messages: `rotated` begins with the nearest, so that
    no two ranks turn to the same one at a time; `sequential` goes by number; `random` draws an order for
    every rank.
    """
    jitter: str
    """Every NPU begins at a random time below this."""


class AstraWorkload(TypedDict, total=False):
    """Training as an ASTRA-sim 1.0 text workload describes it, with that file's own compute times."""

    astra_text: str
    """The file, relative to the experiment file. Of other parallelism than that of data, it names model groups and
    data groups of NPUs, which follow from the topology.
    """
    element: str
    """Bytes of a gradient element; collectives are never cut finer."""


class BaselineEndpoint(TypedDict, total=False):
    """SMs drive collectives through main memory."""

    kind: Literal["baseline"]
    """Which endpoint model."""
    contention: Literal["static", "dynamic"]
    """`static`: what is set aside for communication, compute never has. `dynamic`: both share SMs and main memory,
    as fairly as their warps compete for them, and only while both run.
    """
    comm_memory_bandwidth: str | None
    """Main-memory bandwidth set aside for communication; with static contention only, and then needed. `auto` is
    half of what the NPU has, as in the system of the ACE paper that is optimised for communication.
    """
    comm_sms: str | int
    """SMs set aside for communication; with dynamic contention, SMs that communication runs on. `auto` is as many as
    read what the memory bandwidth of `auto` delivers.
    """
    comm_warps: int
    """Warps of communication on each of its SMs, with dynamic contention."""
    kernel_warps: float
    """Warps of a compute kernel on each SM, with dynamic contention."""
    memory_bandwidth: str | None
    """Main-memory bandwidth that can be had in effect, which compute and communication share with dynamic
    contention; that of the NPU if not given.
    """
    charge_writes: bool
    """Charge memory writes as well as reads (they are recorded either way)."""
    buses: Buses
    """The buses to the network and to memory; with `loggp` a step's data is stored between them."""
    transit: Literal["endpoint", "network"] | None
    """Who forwards messages for distant NPUs where NPUs lie between: the endpoints, through their memory, or the
    routers of the network. If not given, `endpoint` where links lead to NPUs only (products of rings and
    fully connected groups), else `network`.
    """


class Buses(TypedDict, total=False):
    """What a message costs the buses between an NPU, its memory and the network beside its bytes."""

    kind: Literal["rate", "loggp"]
    """`rate`: a message costs its bytes only. `loggp`: the LogGP model, with the bandwidths of the buses as its G."""
    latency: str | None
    """L: latency from the sending end of a bus to the receiving end."""
    overhead: str | None
    """o: time for which either end is busy with a message."""
    gap: str | None
    """g: the least time between the beginnings of two messages."""
    message: str | None
    """Longer transfers are cut into messages of this size; each is one message if not given."""
    memory: str | None
    """Bandwidth of the bus to memory; what is set aside for communication (`comm_memory_bandwidth`) if not given."""


class Calibration(TypedDict, total=False):
    """A declared fitted constant."""

    fitted_on: str
    """The one claim or measurement that the constant was fitted on."""
    variants: Sequence[str]
    """The variants that the constant is for; all of them if none is named."""
    note: str
    """Anything else a reader should know."""


class Collective(TypedDict, total=False):
    """How collectives are carried out."""

    algorithm: Literal[
        "ring",
        "ring-unidirectional",
        "direct",
        "halving-doubling",
        "double-binary-tree",
        "one-hop-trees",
        "in-switch",
        "hierarchical",
        "hierarchical-optimal",
        "ace-4-phase",
        "six-phase",
        "themis",
        "packed-trees",
        "auto",
    ]
    """How ranks work together. `ring`: rings, along one dimension of a product after the other, or through the whole
    group on other fabrics; `ring-unidirectional`: `ring` with `lanes: one`, whatever `lanes` says; `direct`:
    every rank sends to every other at once; `halving-doubling`: partners at distances that halve, then
    double, on the whole group; `double-binary-tree`: two complementary binary trees with half of the data
    each, on the whole group; `one-hop-trees`: a tree of one hop for each rank and its part of the data, on
    the whole group; `in-switch`: switches reduce and copy, along one dimension after the other; needs the
    endpoint `switch-offload`; `hierarchical`: over dimensions, or servers and their GPUs: an all-reduce in
    one after the other, each with the algorithm that suits it; `hierarchical-optimal`: another name of
    `ace-4-phase`; `ace-4-phase`: over dimensions: reduce-scatter in the first, all-reduce in the others, all-
    gather in the first; `six-phase`: over dimensions: reduce-scatter in every one, then all-gather in reverse
    order; `themis`: `six-phase`, but each chunk goes through the dimensions in the order that balances their
    load, and of the chunks that wait for a port the shortest goes first; this needs some hundred chunks;
    `packed-trees`: spanning trees that use all links of a machine, as `syncline trees` finds them; `auto`:
    tries these, and takes the fastest.
    """
    algorithms: Mapping[
        str,
        Literal[
            "ring",
            "ring-unidirectional",
            "direct",
            "halving-doubling",
            "double-binary-tree",
            "one-hop-trees",
            "in-switch",
            "hierarchical",
            "hierarchical-optimal",
            "ace-4-phase",
            "six-phase",
            "themis",
            "packed-trees",
            "auto",
        ],
    ]
    """Algorithms for single kinds of collectives, such as `{all-to-all: direct}`; `{all-to-all: auto}` takes the
    fastest one for that kind. Where neither this nor `algorithm` or `per_dimension` says how all-to-alls are
    carried out, they are `direct` on machines, networks and topology files whose NPUs are joined by switches
    alone.
    """
    plan: str | Sequence[str] | None
    """Files with plans, which take the place of algorithms: each for the kind of collectives that it implements. A
    file is MSCCL XML or JSON of `syncline-plan`, and is verified when it is read.
    """
    loops: int
    """How often each thread block of a schedule does its steps for a chunk, each time for a part of it, as in
    MSCCL's runtime: one that is done begins its next loop, whatever the others do.
    """
    per_dimension: (
        Sequence[Literal["ring", "direct", "halving-doubling", "double-binary-tree", "one-hop-trees", "in-switch"]]
        | None
    )
    """The algorithm of a composition along each dimension; by default the one that suits the dimension."""
    trees: Trees
    """Which trees `packed-trees` packs."""
    slices: Literal["auto", "miad"] | int
    """Blocks over which trees and chains pipeline a chunk; `auto`: as many as are fastest according to trials with a
    few of them, and no more than needed. `miad`: of packed trees, as many as are found over iterations that
    come before the run, as Blink finds them: the size of a slice is doubled while that is faster, and then
    made smaller again.
    """
    slice: str | None
    """The most bytes of a slice of packed trees, instead of `slices`: every chunk has as many as it needs."""
    padding: Literal["equal", "none"]
    """`equal` pads every chunk so that all its blocks are equally long, as libraries do; `none` sends no extra
    bytes.
    """
    scheduling: Literal["fifo", "lifo"]
    """From which issued collective the next chunk is taken: the earliest (`fifo`) or the latest (`lifo`). All ranks
    take chunks in one order, and the first that has room for another chunk chooses it, from what it has
    issued itself. With `lifo`, NPUs that are ahead may so choose what a slower one has not issued, and all
    wait until it has.
    """
    priority: Sequence[
        Literal["all-reduce", "reduce-scatter", "all-gather", "all-to-all", "broadcast", "reduce", "gather", "scatter"]
    ]
    """Kinds of collectives that go before all others, the most urgent first; chunks in flight are not pre-empted."""
    chunk: str | None
    """Size of a chunk: a collective has as many chunks as it needs, whose lengths differ by one block at most. Where
    neither `chunk` nor `chunks` is given, what is fastest when it is tried out with the run's own endpoint;
    with ACE 64KiB, and larger where blocks would be smaller than a packet; with trees the whole, which they
    cut into slices.
    """
    chunks: int | None
    """Number of chunks of each collective, instead of `chunk`; fewer where they would be smaller than `least_chunk`."""
    chunks_of: Mapping[str, int]
    """Numbers of chunks of single kinds of collectives, such as `{all-to-all: 16}`."""
    least_chunk: str
    """The least size of a chunk where `chunks` or `chunks_of` states a number: small collectives have fewer chunks.
    With 1B, they are cut into the stated number of chunks, however small those are.
    """
    inflight: int
    """The most chunks that an NPU has in flight. Where neither this nor a size or number of chunks is given, what is
    fastest when it is tried out. An ACE has limits of its own instead.
    """
    inflight_per_dimension: int | None
    """The most chunks that an NPU has in any phase along a dimension, those of all its communicators together; not
    limited if it is left out. With 1, chunks go through each phase one after the other, in the order in which
    they began; an ACE has limits of its own instead.
    """
    lanes: Literal["alternate", "split", "one"]
    """How chunks use the directions and parallel links of a ring: in turn, each split over all, or only the first."""


class CollectiveWorkload(TypedDict, total=False):
    """A single collective of all NPUs, or of every group at once."""

    collective: Literal[
        "all-reduce", "reduce-scatter", "all-gather", "all-to-all", "broadcast", "reduce", "gather", "scatter"
    ]
    """Which."""
    size: str
    """The full vector, as nccl-tests counts it: the larger of what a rank, or the root, sends and receives."""
    root: int | None
    """The rank of the root of a broadcast, reduce, gather or scatter; 0 if not given, or the root of the plan."""
    element: str
    """Bytes of an element; nothing is cut finer."""
    beside: Sequence[Load]
    """Kernels that run beside the collective; only if the endpoint's `contention` is dynamic."""


class Compute(TypedDict, total=False):
    """How the time of kernels is found (docs/compute.md)."""

    kind: Literal["gpu", "roofline", "systolic", "tiles", "table"]
    """`gpu`: kernels of the GPU's libraries, by what they do, their shape and their size, at the clock that its
    limit of power leaves; it is the default of GPUs of which constants are known. `roofline`: peak rate or
    memory bandwidth, whichever is slower; `systolic`: arrays of processing elements in place of the SMs,
    whose time for a matrix product depends on its shape, or memory bandwidth; `tiles`: matrix products in
    tiles and waves over the SMs, or memory bandwidth; `table`: measured times.
    """
    rows: int
    """Rows of the array."""
    columns: int
    """Columns of the array."""
    dataflow: Literal["output-stationary", "weight-stationary", "input-stationary"]
    """What stays in the array while the rest streams through."""
    clock: str | None
    """Clock of the array; that of the NPU if not given. SMs set aside for communication slow it in proportion."""
    arrays: int
    """Arrays of this size, among which each product is divided."""
    sram_inputs: str | None
    """Memory of an array for inputs, in two halves; what does not fit is fetched again. If none of the three
    memories is given, every operand is moved once and nothing waits for it but for bandwidth; if one is, the
    others keep everything.
    """
    sram_weights: str | None
    """Memory of an array for weights."""
    sram_outputs: str | None
    """Memory of an array for outputs and their partial sums."""
    tile: int | None
    """Results along each side of the square tiles that matrix products are computed in, each of which reads its
    operands from main memory; if not given, every operand is read once.
    """
    tiles: Tiling
    """Of tiles and waves, the tiles."""
    table: str | None
    """The table of measurements, relative to the experiment file."""
    sparsity: str | None
    """How sparse the second factor of every matrix product is: `2:4` if two of four neighbours are kept, or the
    percentage of elements that are; zeros are neither stored nor multiplied. Dense if not given.
    """
    launch: str
    """What passes before each kernel begins."""


class DataTypes(TypedDict, total=False):
    """The data types of weights, compute, gradients and states."""

    weights: Literal["bf16", "fp16", "fp32", "fp64"]
    """The type in which weights are stored, and which ZeRO 1 and 2 gather."""
    compute: Literal["fp64", "fp32", "tf32", "fp16", "bf16", "fp8"]
    """The type of products and activations. Where `weights` have another one, they are cast: whole, before every use
    (autocast), or with ZeRO 3 each NPU its part, before it is gathered (mixed precision of FSDP).
    """
    gradients: Literal["bf16", "fp16", "fp32", "fp64"]
    """The type in which gradients are added up and exchanged. Once they are, they are kept in this type, or in that
    of the weights if it is wider: FSDP casts the part that it has reduced to the type of its weights.
    """
    states: Literal["bf16", "fp16", "fp32", "fp64"]
    """The type of the optimiser's moments, and of the copy of the weights that is updated. There is such a copy if
    this type is wider than that of the weights, and none otherwise.
    """


class Dcqcn(TypedDict, total=False):
    """The parameters of DCQCN: Zhu et al., "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015,
    section 5.2 and Figure 14. The paper gives no `hyper` and no `least`: ten times `additive`, as in
    802.1Qau, and one of it.
    """

    gain: str
    """g: the weight of a notification in the estimate of congestion."""
    notification: str
    """N: a receiver tells of marked frames once in this time at most."""
    alpha_timer: str
    """K: the estimate falls when no notification has come for this time."""
    rate_timer: str
    """T: the rate grows each time that this time is over."""
    byte_counter: str
    """B: the rate grows each time that so much was sent."""
    rounds: int
    """F: rounds of fast recovery, before the target of the rate grows."""
    additive: str
    """R_AI: what the target grows by in additive increase."""
    hyper: str
    """R_HAI: what it grows by in hyper increase, times the rounds of that."""
    least: str
    """The least rate of a connection."""


class DividedWorkload(TypedDict, total=False):
    """Training of a model with a given batch, which is divided as `parallel` says among all NPUs that take part."""

    model: str
    """The model: the name of one that comes with the package, or the path of a model file (docs/models.md), relative
    to the experiment file.
    """
    parameters: Mapping[str, int]
    """Values for parameters of the model, where these are not what its file says."""
    global_batch: int
    """Samples of an iteration over all NPUs together."""
    sequence: int | None
    """Tokens of a sample, for models of sequences; as many as the model's file says, if not given."""
    element: str
    """Bytes of an element of weights and activations; those of `precision` if that is given and this is not."""
    precision: Literal["fp64", "fp32", "tf32", "fp16", "bf16", "fp8"] | DataTypes | None
    """The data type of kernels, as for other models; or a mapping that says of weights, compute, gradients and
    states in which data types they are. Of a name alone, weights and gradients have the width of an element,
    and the optimiser keeps a copy of the weights and moments of four bytes each.
    """
    layout: Literal["nhwc", "nchw"]
    """How images lie in memory, for the kernels of a GPU: channels innermost (`channels_last` in PyTorch, with which
    tensor cores work at once) or outermost (PyTorch's default).
    """


class EthernetNetwork(TypedDict, total=False):
    """Switches with output queues of limited size, and TCP or RoCE between the NPUs."""

    backend: Literal["ethernet"]
    """Which network model."""
    posting: Literal["rotated", "sequential", "random"]
    """The order in which a rank of a direct algorithm posts its messages: `rotated` begins with the nearest, so that
    no two ranks turn to the same one at a time; `sequential` goes by number; `random` draws an order for
    every rank.
    """
    jitter: str
    """Every NPU begins at a random time below this."""
    transport: Literal["tcp", "roce"]
    """What sends again what is lost."""
    profile: Literal["rfc", "ns3-3.37"]
    """`rfc` follows the RFCs; `ns3-3.37` does what that version of ns-3 does, to be held against it."""
    congestion_control: Literal["newreno", "cubic", "dctcp", "dcqcn", "none"] | None
    """How the congestion window of TCP develops: RFC 5681 (by default), RFC 9438 or RFC 8257; or what sets the rate
    of RoCE: `dcqcn` (by default) or nothing but the link.
    """
    retransmission: Literal["go-back-n", "selective-repeat"]
    """What RoCE sends again: everything from the lost frame on, or lost frames alone."""
    dcqcn: Dcqcn
    """The parameters of DCQCN."""
    segment: str | None
    """Payload of a full segment. By default 1448 B with TCP and 1024 B with RoCE."""
    overhead: str | None
    """What a frame has beside its payload, and the size of a bare acknowledgement; a SACK block adds 8 B to that. By
    default 54 B with TCP and 62 B with RoCE.
    """
    buffer: str
    """What may wait at an output of a switch, without the frame that is leaving; with `pfc`, what may wait of what
    has come by an input.
    """
    buffer_sharing: Literal["port", "dynamic"]
    """Whether each port of a switch has its part of the buffer, or queues may hold a multiple of what is free of all
    of it.
    """
    buffer_alpha: float
    """That multiple."""
    flow_control: Literal["pfc", "none"] | None
    """Whether a switch tells senders to pause when a buffer is full (priority flow control), instead of dropping
    frames. By default with RoCE.
    """
    headroom: str
    """What each input of a switch keeps of its buffer for frames that come although it has asked for a pause; `auto`
    is as much as may come.
    """
    nic_queues: Literal["fifo", "flow"] | None
    """Whether connections put frames into one queue at the port of a host, or the port asks them in turn. By default
    `fifo` with TCP; RoCE has `flow`.
    """
    nic_queue: str
    """What may wait at the port of a host, if it has one queue."""
    outstanding: str
    """How many messages of a host may have been posted without having left; the others wait for their turn."""
    window: str | None
    """Size of both socket buffers, and so the most that a connection has in flight. By default 512 KiB with TCP and
    unbounded with RoCE.
    """
    min_rto: str | None
    """Least retransmission timeout; it doubles each time that it expires. With RoCE the timeout, which stays. By
    default 50 ms with TCP and 67.1 ms with RoCE.
    """
    initial_window: int | None
    """Segments of the first congestion window. By default ten; the profile `rfc` has 14,600 B at most, or two
    segments if these are more (RFC 6928). Whatever it is, no more than 65,535 B are sent before the first
    acknowledgement.
    """
    delayed_ack: int
    """Full segments for which an acknowledgement waits; 1 acknowledges each. With RoCE the end of a message does not
    wait.
    """
    delayed_ack_timeout: str
    """How long an acknowledgement waits at most."""
    sack: Literal["on", "off"]
    """Whether acknowledgements say what has arrived out of order."""
    recovery: Literal["prr", "classic"]
    """How the window develops during fast recovery: proportional rate reduction, or half of what was in flight."""
    connections: Literal["pair", "channel"]
    """Whether two NPUs have one connection each way, or one for each channel of the collective, such as a tree."""
    balancing: Literal["flow", "packet"]
    """Which of several equally good ways frames take: one for each connection, by a hash with the seed, or one for
    each frame.
    """
    ecn_threshold: str | None
    """Outputs of switches mark frames that find more than this waiting, and senders reduce their window. By default
    a sixth of the buffer with DCTCP, 5 kB up to 200 kB with DCQCN, and otherwise none.
    """
    ecn_above: str | None
    """Instead of marking all frames above the threshold, mark some between it and this size, and all above."""
    ecn_probability: str | None
    """The share that is marked just below that size."""
    inside: Literal["packets", "flow"]
    """How bytes cross links within machines: in packets of `segment`, or as a fluid. Messages that take NVLink only
    are flows then, and nothing has an event of its own that NICs read and write over PCIe.
    """
    watch: Sequence[Sequence[str]]
    """Sender and receiver of connections whose window, rate and round trips are recorded over time."""
    background: Sequence[Traffic]
    """Traffic beside that of the run: flows of the same transport, with connections of their own. Nobody waits for
    them.
    """
    capture: Sequence[str]
    """Ports of which what leaves is written to the directory of a run, as files of captured packets (pcap)."""
    faults: Sequence[Fault]
    """Links that go down, slow down or lose frames, and slow nodes."""


class Fault(TypedDict, total=False):
    """A link, or all links of a node, that become slower, lose frames, or go down."""

    link: Sequence[str] | None
    """The two ends of the link; it is affected in both directions."""
    node: str | None
    """Or a node, such as an NPU whose NIC is slow: all its links, in both directions."""
    at: str
    """When it begins."""
    until: str | None
    """When all is as before; by default it stays."""
    rate: str | None
    """What is left of the rate, in whole per cent; with `0%` the link is down."""
    loss: str | None
    """How many of the frames get lost on the wire, of a link."""


class FlowNetwork(TypedDict, total=False):
    """Concurrent messages share links max-min fairly; rates change as flows come and go."""

    backend: Literal["flow"]
    """Which network model."""
    posting: Literal["rotated", "sequential", "random"]
    """The order in which a rank of a direct algorithm posts its messages: `rotated` begins with the nearest, so that
    no two ranks turn to the same one at a time; `sequential` goes by number; `random` draws an order for
    every rank.
    """
    jitter: str
    """Every NPU begins at a random time below this."""


class GraphWorkload(TypedDict, total=False):
    """Graphs of compute and communication, for classes of NPUs, with families of communicators."""

    graph: str
    """The file, relative to the experiment file: JSON, of which `syncline schema graph` prints the schema, or a
    connection matrix of htsim.
    """
    element: str
    """Bytes of an element; collectives are never cut finer."""


class IdealEndpoint(TypedDict, total=False):
    """Every message is processed in a fixed time."""

    kind: Literal["ideal"]
    """Which endpoint model."""
    step_latency: str | None
    """Time from the arrival of a message to the next step; by default one cycle of the NPU's clock. A thread of an
    algorithm takes it for one step after the other, for what it sends of its own as well.
    """
    injection_latency: str
    """Time from the arrival of a message until a step can work on it, as copies between network interface and memory
    take it (HOTI 2020): a pure delay of every message, however many are delayed at a time. Only with
    forwarding of messages.
    """
    forwarding: Literal["messages", "packets"]
    """What is passed on when it has arrived: whole messages, or packets, as an ACE does, where the network has some.
    With `packets` nothing is faster, but whatever passes an NPU is simulated packet by packet.
    """
    transit: Literal["endpoint", "network"] | None
    """Who forwards messages for distant NPUs where NPUs lie between: the endpoints, message by message, or the
    routers of the network. If not given, `endpoint` where links lead to NPUs only (products of rings and
    fully connected groups), else `network`.
    """


class JobsWorkload(TypedDict, total=False):
    """Several jobs on disjoint NPUs that share the fabric."""

    jobs: Sequence[PlacedJob]
    """The jobs. Each is also run alone, which tells how much the others slow it down."""


class Load(TypedDict, total=False):
    """Kernels that run beside a collective, on every NPU, for as long as it takes."""

    name: str
    """The name of the kernel."""
    warps: float
    """Warps of one of them on each SM."""
    memory_bandwidth: str | None
    """Main-memory bandwidth that one of them uses if it runs alone; none if not given."""
    count: int
    """How many of them run at once."""


class ModelWorkload(TypedDict, total=False):
    """Training of a model."""

    model: str
    """The model: the name of one that comes with the package, or the path of a model file (docs/models.md), relative
    to the experiment file.
    """
    parameters: Mapping[str, int]
    """Values for parameters of the model, where these are not what its file says."""
    batch: int
    """Samples per NPU and iteration."""
    element: str
    """Bytes of an activation, weight or gradient element; those of `precision` if that is given and this is not.
    Collectives are never cut finer.
    """
    precision: Literal["fp64", "fp32", "tf32", "fp16", "bf16", "fp8"] | None
    """The data type of kernels, which determines the peak rate of a GPU. By default it follows from the bytes of an
    element: 1 `fp8`, 2 `fp16`, 4 `fp32` (`tf32` has to be chosen explicitly), 8 `fp64`, or the next wider
    type that the GPU has. `fp8` is the type of products of linear layers only, of their factors and their
    peak rate: attention, other kernels, weights, gradients, activations and messages are as with `bf16`.
    """
    kernels: Literal["all", "weighted"]
    """Which kernels take time: all of them, or only those of operators with weights (convolutions, fully connected
    and recurrent layers, attention, embeddings), as in simulators whose compute model has no others.
    """
    sequence: int | None
    """Tokens of a sample, for models of sequences; as many as the model's file says, if not given."""
    layout: Literal["nhwc", "nchw"]
    """How images lie in memory, for the kernels of a GPU: channels innermost (`channels_last` in PyTorch, with which
    tensor cores work at once) or outermost (PyTorch's default).
    """


class NcclEndpoint(TypedDict, total=False):
    """Collectives cost what NCCL takes on the machine, as `syncline bench` predicts it: launch, protocol, channels,
    and the share of its links that it reaches. They go one after the other in a communicator; several
    communicators share links.
    """

    kind: Literal["nccl"]
    """Which endpoint model."""
    software: str | None
    """The constants: a class of machines that comes with the package, or a file of `syncline calibrate`, beside the
    experiment file; by default the class of the machine.
    """
    algorithm: Literal["auto", "ring", "tree", "nvls"]
    """The algorithm of NCCL whose time an all-reduce takes, as `NCCL_ALGO` has it; `auto`: the one that NCCL chooses
    for its size. What is simulated are messages of `collective.algorithm`, scaled to it.
    """
    comm_sms: int | None
    """SMs that compute does not have from beginning to end if it overlaps with communication, 0 for none. By default
    kernels lack what collectives hold while these are in flight: an SM for each channel that NCCL uses, and
    the memory bandwidth that their copies take.
    """


class Npu(TypedDict, total=False):
    """The NPU as hardware. Defaults: those of the machine's GPU, or of the GPU that is named; of a topology that is
    no machine the GPU-like NPU of the ACE paper (Table V).
    """

    gpu: (
        Literal[
            "p100",
            "v100-16gb",
            "v100-32gb",
            "a100-40gb",
            "a100-80gb",
            "a100-pcie-40gb",
            "a100-pcie-80gb",
            "h100-pcie",
            "h100-nvl",
            "h100",
            "h200",
            "b200",
            "gb200",
        ]
        | None
    )
    """The GPU whose published figures are the defaults of the other fields; that of the machine, if not given. A
    training on a topology file of GPUs needs it where the file does not say which GPUs these are.
    """
    peak: str
    """Peak rate of all SMs together, without sparsity; of a GPU, that for `workload.precision`."""
    sms: int
    """Streaming multiprocessors."""
    clock: str
    """Clock of the SMs; an endpoint's cycles are at this clock unless it says otherwise."""
    memory_bandwidth: str
    """Main-memory bandwidth, for compute and communication together."""
    memory: str | None
    """Main memory; a model that does not fit is refused. Not checked if unknown."""
    reserved: str
    """What a model does not get of it: of a GPU 1 GiB, for CUDA's context and the buffers of NCCL."""
    bus: str
    """Bus between the NPU and its fabric interface, each direction; that of a GPU carries as much as its memory."""
    sm_read: str
    """Bytes that one SM reads per cycle when it drives a collective."""
    power: str | None
    """What the GPU may draw on average, with the compute model of a GPU: its clock falls until the kernels of an
    iteration keep it. As the GPU comes, if not given.
    """
    host_kernel_time: str
    """What the host takes to launch a kernel, a collective or a message, with `training.launch: host`. It runs ahead
    of the NPU, except that it waits for what other stages of a pipeline send; NPUs wait where it is slower
    than they are. With the compute model of a GPU 10 us, if not given: a property of the host and of what
    runs on it.
    """
    compute: Compute
    """The compute model."""


class Optimiser(TypedDict, total=False):
    """The optimiser. The data types of gradients, states and weights are those of `workload.precision`."""

    kind: Literal["adam", "sgd"]
    """`adam` keeps two moments, `sgd` one (momentum)."""
    implementation: Literal["fused", "foreach"] | None
    """Its kernels, as PyTorch has them: one for all that is done to a parameter, or one for each operation on a list
    of tensors, with temporary tensors in between. If not given, what `training.kernels` take by default:
    `foreach` in PyTorch, `fused` in Megatron-LM, and wherever kernels are those of no framework.
    """


class Output(TypedDict, total=False):
    """What is recorded."""

    window: str | None
    """Length of the windows for which utilisation is recorded, doubled in long runs. If it is not given, a run has
    200 to 400 windows, and a long one windows of 0.8 us.
    """
    trace_npus: Sequence[int]
    """NPUs whose activity is traced; of those that take part the first, if nothing is stated."""
    trace_limit: int
    """The most spans of activity that are traced; of messages and of busy spans of links, a twentieth of it each."""


class Overlap(TypedDict, total=False):
    """What is communicated beside compute; `training.overlap` says so of gradients and of weights."""

    tensor: bool
    """Exchange of an input's gradient at the entrance of a tensor-parallel region beside the gradient of that
    operator's weights, as Megatron-LM does. All else that tensor parallelism exchanges is waited for.
    """
    pipeline: bool
    """Sends between stages beside the compute that follows; `false` waits until a message has left."""


class PacketNetwork(TypedDict, total=False):
    """Packets, input-buffered routers, credits and dimension-order routing."""

    backend: Literal["packet"]
    """Which network model."""
    posting: Literal["rotated", "sequential", "random"]
    """The order in which a rank of a direct algorithm posts its messages: `rotated` begins with the nearest, so that
    no two ranks turn to the same one at a time; `sequential` goes by number; `random` draws an order for
    every rank.
    """
    jitter: str
    """Every NPU begins at a random time below this."""
    packet: str
    """Payload of a packet."""
    buffer: str
    """Input buffer of a link, as a size; `auto` is twice the bandwidth-delay product of the link. It has a slot for
    each packet that fits, and a short packet takes one like a full one: messages of a few bytes fill it as
    fast.
    """
    deadlock_rule: Literal["bubble", "dateline", "none"]
    """How rings are kept free of deadlock; `none` shows what happens without a rule."""
    mode: Literal["trains", "reference"]
    """`trains` moves packets of one message together where that is exact; `reference` moves every packet by itself."""


class Parallel(TypedDict, total=False):
    """How a model with `workload.global_batch` is divided. Ways multiply to the NPUs of the topology."""

    tensor: int
    """Tensor parallelism: NPUs among which operators are divided (Shoeybi et al., "Megatron-LM", 2019)."""
    sequence: bool
    """Sequence parallelism: what tensor parallelism leaves whole is divided by tokens among the same NPUs
    (Korthikanti et al., 2022).
    """
    context: int
    """Context parallelism: NPUs among which the tokens of a sample are divided."""
    context_exchange: Literal["ring", "all-gather"]
    """How attention sees the keys and values of other NPUs: blocks go around a ring while attention to the one at
    hand is computed (Liu et al., "Ring Attention", 2023), or all are gathered first.
    """
    expert: int
    """Expert parallelism: NPUs among which experts are divided; these are data-parallel for all else, so this
    divides `data`.
    """
    expert_loads: Sequence[float]
    """Relative shares of tokens that go to the experts of each of the `expert` NPUs; equal if not given."""
    pipeline: int
    """Pipeline parallelism: stages, each with as many blocks of layers as any other. Where the blocks are one or two
    short of that, the last stage, or the last and the first one, have one block less.
    """
    virtual: int
    """Chunks of layers of a stage in an interleaved schedule (Narayanan et al., SC 2021, section 2.2)."""
    schedule: Literal["gpipe", "1f1b", "interleaved", "pipedream"]
    """In which order a stage computes. `gpipe`: all forward passes, then all backward ones (Huang et al., 2019).
    `1f1b`: alternately, with a flush at the end of an iteration (PipeDream-flush). `interleaved`: the same
    with several chunks of layers in each stage. `pipedream`: alternately and without a flush, with an update
    after each micro-batch, on weights that are stashed (Narayanan et al., "PipeDream", SOSP 2019).
    """
    data: int | None
    """Data parallelism: copies of the model, each with its share of the batch; all that is left if not given."""
    zero: int
    """Stage of ZeRO: what data-parallel NPUs divide. 1: states of the optimiser, 2: gradients too, 3: weights too:
    this is fully sharded data parallelism (FSDP). A single copy of the model has nobody to divide anything
    with.
    """
    hsdp: int | None
    """Data-parallel NPUs among which ZeRO divides what it divides, neighbours by number: hybrid sharding (HSDP),
    with copies of all parts in as many groups as there are. Within a group weights are gathered and gradients
    reduce-scattered; the parts are then all-reduced between the groups. All NPUs that have copies if not
    given.
    """
    prefetch: int
    """Layers ahead of the one computed whose weights are gathered, with ZeRO 3."""
    micro_batch: int
    """Samples of a micro-batch, of which a copy of the model computes one after the other."""
    recompute: Literal["none", "selective", "full", "operators"]
    """What is computed again in the backward pass instead of being kept: the core of attention (`selective`), whole
    layers (`full`), or what `recompute_operators` lists.
    """
    recompute_operators: Literal["torchtitan"] | Sequence[str]
    """What is computed again with `recompute: operators`. `torchtitan`: all of a block but attention, every second
    matrix product, reduce-scatters and all-to-alls. Or a list, each entry a module of Megatron-LM
    (`core_attn`, `moe_act`, `layernorm`, `mla_up_proj`, `mlp`, `moe`, `shared_experts`), a kind of operators
    or the name of one.
    """
    scatter_gather: bool
    """Whether tensor-parallel NPUs send a part each of an activation between stages that all of them hold, which
    receivers gather again (Narayanan et al., SC 2021, section 4.1). Sequence parallelism sends parts anyway.
    """
    order: Sequence[Literal["tensor", "context", "data", "pipeline"]]
    """Which axis is innermost: along the first one NPUs are neighbours by number, so within a server. Experts are
    inside `data`.
    """
    on: Mapping[str, Sequence[int]]
    """The dimensions of a product topology that an axis takes, in place of `order` and of sizes: `{tensor: [0],
    data: [1, 2]}`. Those of `expert` are beside those of `data`.
    """
    parameter_server: Literal["none", "central", "sharded"]
    """Who updates weights: all copies, after collectives; the first NPU of a data-parallel group, to which the
    others send gradients and from which they get weights (`central`); or each NPU of the group its part
    (`sharded`).
    """
    updates: Literal["synchronous", "asynchronous"]
    """Whether a parameter server waits for the gradients of all, or answers each as it comes."""
    optimiser: Optimiser
    """The optimiser."""
    overlap: Overlap
    """What is communicated beside compute."""
    collectives: Mapping[str, Mapping[str, Any]]
    """How collectives of single axes are carried out, where that is not as `collective` says: with the same keys."""


class PlacedJob(TypedDict, total=False):
    """A job among several: the training of a model on some of the NPUs."""

    name: str
    """Its name."""
    npus: str
    """Its NPUs, by rank; no other job has them."""
    workload: ModelWorkload
    """The model that it trains."""
    iterations: int | None
    """How many iterations it has; by default as many as `training.iterations` says."""
    collective: Mapping[str, Any]
    """How its collectives are carried out, where that is not as `collective` of the experiment says: with the same
    keys.
    """


class SlowLink(TypedDict, total=False):
    """A link of a product topology, in one direction, that differs from the others of its dimension."""

    npu: int
    """The NPU that sends through it."""
    dim: int
    """Its dimension."""
    way: str
    """Where it leads: `up` or `down` a ring, to the `switch`, or `+k` coordinates across a fully connected group."""
    parallel: int
    """Which of the parallel links."""
    rate: str
    """Payload rate."""
    latency: str | None
    """Latency; that of the dimension if not given."""


class Straggler(TypedDict, total=False):
    """An NPU that computes more slowly than the others."""

    npu: int
    """Which."""
    factor: float
    """Factor on its compute times; 1.5 takes half as long again."""


class StreamsEndpoint(TypedDict, total=False):
    """Copies and kernels in the streams of GPUs, one after the other (Blink, MLSys 2020). A thread of a plan is a
    stream; a chunk that it copies holds it until the last byte has left.
    """

    kind: Literal["streams"]
    """Which endpoint model."""
    copy_overhead: str
    """Issue and synchronisation of a chunk that is sent, before its data starts on the link: three commands."""
    kernel_overhead: str
    """Wait and launch of a kernel that reduces what has arrived, before it runs; also of a local copy or reduction."""
    event_overhead: str
    """Wait for the event that a chunk has arrived which is not reduced."""
    reduce_rate: str
    """Bytes of chunks that the kernels of an NPU reduce per second, all streams together."""
    start_latency: str
    """From the call of a collective on an NPU until its first command there; once, however many chunks it has."""
    peer_access_latency: str
    """Switching peer access from NVLinks to PCIe and back, for each GPU of the communicator: what GPUs with NVLinks
    send by a way over PCIe begins that much later in each collective.
    """
    sharing: Literal["fair", "delayed"]
    """How streams share a link: chunk by chunk (`fair`), or so that a chunk which finds another stream of its NPU at
    a copy over the same link is delayed by a random time (`delayed`).
    """
    delay: float
    """With delayed sharing, the longest delay of a chunk, in multiples of its time on the link; thousandths count."""


class SwitchOffloadEndpoint(TypedDict, total=False):
    """Switches reduce and copy, and DMAs move the data (ACE paper, section IV-B, Table II). Values that no vendor
    states are assumptions.
    """

    kind: Literal["switch-offload"]
    """Which endpoint model."""
    comm_memory_bandwidth: str
    """Main-memory bandwidth set aside for the DMAs; `auto` is half of the NPU's, as for a baseline."""
    comm_sms: int
    """SMs set aside for phases that do not go through switches, such as those of rings; the others need none."""
    charge_writes: bool
    """Charge memory writes as well as reads (they are recorded either way)."""
    switch_reduce_bandwidth: str | None
    """The rate of the ALU at each port of a switch; if not given, it is as fast as the port."""
    switch_memory: str
    """Memory of a switch for partial sums; chunks in flight share it."""
    switch_latency: str
    """Time from the last addition to a piece, or from its arrival, to its departure."""
    message: str
    """The largest piece that a switch works on, where the vector is not scattered over ranks."""


class Tiling(TypedDict, total=False):
    """How matrix products are cut into tiles, and how fast these are. The defaults were fitted to a few products in
    BF16 on an NVIDIA H200 (docs/compute.md).
    """

    sizes: Sequence[Sequence[int]]
    """Rows and columns of tiles, either way up; each product has the size that is best for it."""
    splits: Sequence[int]
    """Into how many parts sums may be split, so that more SMs have something to do."""
    sustained: str
    """The fraction of its peak rate that an SM would reach with endlessly large tiles."""
    reuse: float
    """Multiplications for each element of operands that a tile takes in at which half of that is reached: tiles of r
    rows and c columns do r c / (r + c).
    """
    fill: int
    """Terms that an SM could have worked on while a tile begins and ends."""
    sustained_memory: str
    """The fraction of the memory bandwidth that kernels reach."""
    split_overhead: str
    """What it costs to split sums, beside reading and writing the parts: a second kernel."""
    misaligned: str
    """What is left of the rate where rows of operands do not begin at multiples of 16 bytes."""


Traffic = TypedDict(
    "Traffic",
    {
        "from": "str | Sequence[str]",
        "to": "str | Sequence[str]",
        "size": "str | None",
        "start": "str",
        "repeat": "int",
        "every": "str | None",
        "load": "str | None",
        "sizes": "str | None",
        "matrix": "str | None",
    },
    total=False,
)
"""Flows beside the run: given ones (`from`, `to`, `size`), random ones (`load`), or those of a file (`matrix`).
`from`: The NPU that sends; of random flows, those that send; `to`: The NPU that receives; of random flows,
those among which the receiver is drawn; `size`: Payload of each flow; `start`: When the first of given flows
begins; `repeat`: How many given flows there are, one after the other; `every`: The time from the beginning of
one to that of the next; `load`: Flows arrive at random, as a Poisson process at each sender; their payload
takes this share of the rate of its link on average; `sizes`: How large random flows are, in place of one
size: a distribution by name, or a file with its points; `matrix`: A connection matrix of htsim, whose flows
are given. It has no triggers.
"""


class Training(TypedDict, total=False):
    """The training loop."""

    strategy: Literal["data-parallel", "hybrid"] | None
    """How the model is distributed: a copy on every NPU, or copies of the MLPs with the embedding tables
    distributed; by default what the model needs, which is `hybrid` for DLRM.
    """
    iterations: int | None
    """How many iterations are simulated: 2 if nothing is said, or 1 of a graph of a file, and of a model with
    `workload.global_batch`.
    """
    overlap: bool
    """Issue collectives as gradients become ready; `false` issues them together after back-propagation."""
    bucket: str | None
    """Gradients are all-reduced together in buckets of layers that follow one another, each full once it has so many
    bytes, as in PyTorch's DistributedDataParallel (25 MiB there); layer by layer, if not given.
    """
    first_bucket: str | None
    """The same for the bucket of the first layers, whose gradients come last (1 MiB there); by default like the
    others.
    """
    barrier: bool
    """Whether an iteration ends with one step of an optimiser that updates all weights when all gradients are
    reduced (PyTorch); `false` lets each layer's next forward pass wait for its own gradients only, and the
    layer's weights are updated then.
    """
    tail: Literal["stop", "drain"] | None
    """What happens to what is in flight when back-propagation ends for the last time: `stop` ends the run, `drain`
    waits for it, and weights are updated by it; by default a run stops, but graphs of files and models with
    `workload.global_batch` are run to their last node, and text workloads with `MICRO`, which have no passes,
    to the end of their collective.
    """
    update: bool
    """Whether weight updates cost compute time, and states of an optimiser memory: those of stochastic gradient
    descent with momentum, or of the optimiser in `parallel` for a model with `workload.global_batch`.
    """
    kernels: Literal["eager", "compile", "megatron"]
    """Whose kernels an NPU runs, with the compute model of a GPU: those of PyTorch as it is, of `torch.compile`, or
    of Megatron-LM. It decides what is fused, and in which types losses are computed.
    """
    launch: Literal["host", "graph"]
    """Who launches kernels: the host, one by one (`npu.host_kernel_time`), or a CUDA graph."""
    attention: Literal["flash1", "flash2", "flash3", "cudnn", "unfused"] | None
    """Which library computes attention: FlashAttention 1 (that of Triton is as fast), 2 or 3, cuDNN, or products and
    a softmax whose scores go through memory (`unfused`). If not given, what PyTorch's
    `scaled_dot_product_attention` takes on the GPU, for models whose attention is fused.
    """
    loss: Literal["eager", "fused"]
    """How cross-entropy is computed: by a softmax and the loss of its result, with logits that are cast to FP32 if
    anything of the training is in FP32 (`eager`), or by one kernel that takes logits as they are and keeps
    nothing else (`fused`, as of FlashAttention). Logits are often what a training of language models needs
    most memory for.
    """
    background_embedding: bool
    """Look up embeddings for the next iteration, and apply the gradients of the previous one, in the background:
    beside the training loop, on resources that are taken from compute.
    """
    background_sms: int
    """SMs for the embeddings in the background."""
    background_memory_bandwidth: str
    """Main-memory bandwidth for the embeddings in the background."""
    stragglers: Sequence[Straggler]
    """NPUs that compute more slowly."""
    compute_scale: float
    """Factor on every compute time, those of a text workload included; a fitted value is declared under
    `calibration`.
    """


class Trees(TypedDict, total=False):
    """Which trees are packed."""

    links: Literal["auto", "nvlink", "pcie", "all", "hybrid"]
    """The links that trees use: NVLinks with their switches (`nvlink`), PCIe and what joins sockets, all, or NVLinks
    and PCIe at the same time, with trees of their own (`hybrid`); `auto`: NVLinks within a machine that has
    some, all in a cluster, where servers reduce and broadcast on their own and exchange in between.
    """
    objective: Literal["time", "trees", "depth"]
    """Of trees with the best rate, those that are predicted to be the fastest for the size, the fewest, or the
    shallowest.
    """


class VariantTopologyDimsDimsBlock(TypedDict, total=False):
    """A dimension of a topology that is written as a mapping."""

    block: Literal["Ring", "FullyConnected", "Switch"]
    """What connects the NPUs along the dimension."""
    size: int
    """NPUs along the dimension."""
    rate: str
    """Rate of one link and direction, on the wire."""
    latency: str
    """Latency of one link."""
    links: int
    """Parallel links per direction and neighbour, or to the switch."""
    efficiency: str
    """The share of the rate that payload gets."""


class VariantTopologyDims(TypedDict, total=False):
    """The dimensions as a list of mappings with block, size, rate, latency, links and efficiency."""

    dims: Sequence[VariantTopologyDimsDimsBlock]


class VariantTopologyFile(TypedDict, total=False):
    """A topology in a file: NCCL's XML, what `nvidia-smi topo -m` prints, or nodes and links in YAML or JSON."""

    file: str
    """The file, relative to the experiment file."""
    pcie_rate: str | None
    """What a PCIe link has on the wire, each direction, where a file of GPUs does not say it; by default as much as
    the PCIe of the GPU, if it is known, or else of the third generation.
    """


class Variant(TypedDict, total=False):
    """A system to compare: a name, and what differs from the file."""

    name: str
    """Name of the experiment; of the variant, once variants are told apart."""
    description: str
    """A text for readers."""
    topology: str | VariantTopologyDims | VariantTopologyFile
    """The fabric."""
    gpus: str | Sequence[int | str] | None
    """The GPUs of a machine, network of switches or topology file that take part; the others do not even forward."""
    groups: str | Sequence[Sequence[int | str] | str] | None
    """Groups that run every collective side by side; by default all NPUs that take part are one group."""
    slow_links: Sequence[SlowLink]
    """Links of a product topology that have a lower rate, or more latency, than their dimension says."""
    npu: Npu
    """The NPU."""
    network: (
        Literal["packet", "flow", "analytical", "ethernet"]
        | PacketNetwork
        | FlowNetwork
        | AnalyticalNetwork
        | EthernetNetwork
    )
    """The network model. Where it is not given, a single collective and a training on GPUs of a machine are
    simulated as flows, all else in packets.
    """
    workload: ModelWorkload | DividedWorkload | AstraWorkload | CollectiveWorkload | GraphWorkload | JobsWorkload
    """What is run."""
    parallel: Parallel
    """How a model with `workload.global_batch` is divided among the NPUs."""
    training: Training
    """The training loop; there is none with a single collective."""
    collective: Collective
    """How collectives are carried out."""
    endpoint: (
        Literal["ideal", "streams", "nccl"]
        | IdealEndpoint
        | BaselineEndpoint
        | AceEndpoint
        | SwitchOffloadEndpoint
        | StreamsEndpoint
        | NcclEndpoint
    )
    """What a message costs at an NPU. If not given, a training on GPUs that are known (a machine, or `npu.gpu`) has
    `nccl`, unless `collective` has plans or an algorithm that NCCL has not: `packed-trees`, `in-switch`, or
    `auto`, which takes the fastest one on the links. Everything else has `ideal`.
    """
    fold: Literal["auto", "on", "off"]
    """Whether NPUs that are alike are simulated once, which changes no result. `auto`: where that is exact; `on`:
    always, and a run for which it is not exact is refused; `off`: never.
    """
    output: Output
    """What is recorded."""


class TopologyDimsDimsBlock(TypedDict, total=False):
    """A dimension of a topology that is written as a mapping."""

    block: Literal["Ring", "FullyConnected", "Switch"]
    """What connects the NPUs along the dimension."""
    size: int
    """NPUs along the dimension."""
    rate: str
    """Rate of one link and direction, on the wire."""
    latency: str
    """Latency of one link."""
    links: int
    """Parallel links per direction and neighbour, or to the switch."""
    efficiency: str
    """The share of the rate that payload gets."""


class TopologyDims(TypedDict, total=False):
    """The dimensions as a list of mappings with block, size, rate, latency, links and efficiency."""

    dims: Sequence[TopologyDimsDimsBlock]


class TopologyFile(TypedDict, total=False):
    """A topology in a file: NCCL's XML, what `nvidia-smi topo -m` prints, or nodes and links in YAML or JSON."""

    file: str
    """The file, relative to the experiment file."""
    pcie_rate: str | None
    """What a PCIe link has on the wire, each direction, where a file of GPUs does not say it; by default as much as
    the PCIe of the GPU, if it is known, or else of the third generation.
    """


class Experiment:
    """An experiment, given as values: what a file says, field by field.

    Quantities are text with a unit, such as `"64KiB"` or `"25GB/s"`. A field that is `None` has its default, but for
    `topology` and `workload`, which have none. Nothing is checked when this is made, not even that these two are given:
    what loads, checks or runs it raises one [`syncline.InputError`] with all that is wrong and missing.

    Arguments:
        name: Name of the experiment; of the variant, once variants are told apart.
        description: A text for readers.
        topology: The fabric.
        gpus: The GPUs of a machine, network of switches or topology file that take part; the others do not
            even forward.
        groups: Groups that run every collective side by side; by default all NPUs that take part are one
            group.
        slow_links: Links of a product topology that have a lower rate, or more latency, than their dimension
            says.
        npu: The NPU.
        network: The network model. Where it is not given, a single collective and a training on GPUs of a
            machine are simulated as flows, all else in packets.
        workload: What is run.
        parallel: How a model with `workload.global_batch` is divided among the NPUs.
        training: The training loop; there is none with a single collective.
        collective: How collectives are carried out.
        endpoint: What a message costs at an NPU. If not given, a training on GPUs that are known (a machine,
            or `npu.gpu`) has `nccl`, unless `collective` has plans or an algorithm that NCCL has not:
            `packed-trees`, `in-switch`, or `auto`, which takes the fastest one on the links. Everything else
            has `ideal`.
        calibration: Fitted constants: the path of a field, and what it was fitted on.
        fold: Whether NPUs that are alike are simulated once, which changes no result. `auto`: where that is
            exact; `on`: always, and a run for which it is not exact is refused; `off`: never.
        output: What is recorded.
        variants: Systems to compare; each is laid over the file.
        baseline: The variant that speed-ups are against; the first if not given.
    """

    __slots__ = ("_values",)

    def __init__(
        self,
        name: str = "experiment",
        *,
        description: str | None = None,
        topology: str | TopologyDims | TopologyFile | None = None,
        gpus: str | Sequence[int | str] | None = None,
        groups: str | Sequence[Sequence[int | str] | str] | None = None,
        slow_links: Sequence[SlowLink] | None = None,
        npu: Npu | None = None,
        network: Literal["packet", "flow", "analytical", "ethernet"]
        | PacketNetwork
        | FlowNetwork
        | AnalyticalNetwork
        | EthernetNetwork
        | None = None,
        workload: ModelWorkload
        | DividedWorkload
        | AstraWorkload
        | CollectiveWorkload
        | GraphWorkload
        | JobsWorkload
        | None = None,
        parallel: Parallel | None = None,
        training: Training | None = None,
        collective: Collective | None = None,
        endpoint: Literal["ideal", "streams", "nccl"]
        | IdealEndpoint
        | BaselineEndpoint
        | AceEndpoint
        | SwitchOffloadEndpoint
        | StreamsEndpoint
        | NcclEndpoint
        | None = None,
        calibration: Mapping[str, Calibration] | None = None,
        fold: Literal["auto", "on", "off"] | None = None,
        output: Output | None = None,
        variants: Sequence[Variant] | None = None,
        baseline: str | None = None,
    ) -> None:
        given: dict[str, Any] = {
            "name": name,
            "description": description,
            "topology": topology,
            "gpus": gpus,
            "groups": groups,
            "slow_links": slow_links,
            "npu": npu,
            "network": network,
            "workload": workload,
            "parallel": parallel,
            "training": training,
            "collective": collective,
            "endpoint": endpoint,
            "calibration": calibration,
            "fold": fold,
            "output": output,
            "variants": variants,
            "baseline": baseline,
        }
        self._values: dict[str, Any] = {key: value for key, value in given.items() if value is not None}

    def __repr__(self) -> str:
        return f"Experiment({', '.join(f'{key}={value!r}' for key, value in self._values.items())})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Experiment) and self._values == other._values

    def __hash__(self) -> int:
        return hash(repr(self))

    def as_mapping(self) -> dict[str, Any]:
        """The experiment as a mapping, with the fields that are given."""
        return dict(self._values)
