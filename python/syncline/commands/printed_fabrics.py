"""The documents that `trees` and `topology` print with `--json`: what is said of fabrics. See `printed.py`."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from syncline.commands.printed import Head, Value
from syncline.results.documents import Part


class Tree(Part):
    """A spanning tree, by the numbers of GPUs."""

    root: int
    """The GPU that it begins at."""
    weight: float
    """Its share of the rate, in links."""
    edges: list[list[int]]
    """Pairs of GPUs, from parent to child."""
    depth: int
    """Edges from the root to the farthest GPU."""
    via: list[list[str]]
    """For each edge, the switches that it goes through."""
    collective: str | None = None
    """The part of an all-reduce that it is for, where there are several."""
    part_of: int | None = None
    """The GPU whose part of the data it carries."""
    edges_to_root: list[list[int]] | None = None
    """Of an all-reduce whose way to the root differs, the edges of that way."""
    via_to_root: list[list[str]] | None = None
    """The switches of these edges."""


class Symmetry(Part):
    """By which trees of all roots follow from those of one."""

    roots: int
    """Roots of the trees that each of the trees stands for, its own included."""
    generators: list[list[int]]
    """Renamings of GPUs that leave the machine as it is."""


class Times(Part):
    """How often a set counts in a certificate."""

    set: list[int]
    """The GPUs of the set."""
    inward: bool
    """Whether what enters the set counts, or what leaves it."""
    times: int
    """How often it counts."""


class Certificate(Part):
    """What proves that no schedule is faster."""

    sets: list[list[str]]
    """Nodes whose borders limit the rate."""
    capacity_links: float
    """What the links across these borders carry together."""
    rate_links: float
    """The best rate that follows from it."""
    times: list[Times]
    """How often each set counts."""


class Compared(Part):
    """An algorithm that was simulated beside trees, or the bound, which has none."""

    name: str
    """What is compared."""
    algorithm: str | None
    """The algorithm that was simulated."""
    theory_bytes_per_s: float | None
    """Its rate in theory."""
    theory_over: str | None
    """The class of links that theory has it on."""
    over: list[str] | None
    """The classes of links that it sent something over."""
    time_s: float | None
    """Its simulated time."""
    algorithm_bandwidth_bytes_per_s: float | None
    """The size over the time."""
    bus_bandwidth_bytes_per_s: float | None
    """Algorithm bandwidth times the factor of nccl-tests for the collective."""
    steps: int | None
    """Steps of a chunk."""
    share_of_bound: float | None
    """Its algorithm bandwidth over the bound."""
    reason: str | None
    """Why there is no time."""


class PartOfHybrid(Part):
    """The trees over one kind of links, and their part of the data."""

    links: str
    """The class of links."""
    rate_links: float
    """The rate of the trees, in links."""
    optimal_rate_links: float
    """The best rate that trees can have."""
    rate_bytes_per_s: float
    """The rate of the trees."""
    predicted_time_s: float | None
    """Predicted time of its part."""
    size_bytes: int
    """Its part of the data."""
    trees: list[Tree]
    """Its trees."""
    components: list[list[int]]
    """Groups of GPUs that reach each other."""
    certificate: Certificate | None
    """What proves that no rate is better."""


class TreesDocument(Head):
    """What `syncline trees --json` prints: of an allocation its trees, or with `--sweep` a row for each of all."""

    machine: str
    """The machine, cluster or file."""
    gpus: list[int] | None = None
    """The GPUs that take part."""
    collective: str
    """The kind of collective."""
    links: str
    """The links that trees may use."""
    objective: str | None = None
    """What is to be best beside the rate."""
    threshold: float | None = None
    """The share of the rate that may be given up for fewer trees."""
    link_unit_bytes_per_s: int | None = None
    """The rate of one link."""
    rate_links: float | None = None
    """The rate of the trees, in links."""
    optimal_rate_links: float | None = None
    """The best rate that trees can have, in links."""
    rate_bytes_per_s: float | None = None
    """The rate of the trees."""
    predicted_time_s: float | None = None
    """Predicted time of a collective of this size."""
    predicted_times_s: dict[str, float] | None = None
    """Predicted times with other objectives."""
    slices: int | None = None
    """Slices of the largest part."""
    overhead_s: float | None = None
    """What a slice costs at an endpoint."""
    size_bytes: int
    """Size of the collective."""
    fewest_possible: int | None = None
    """No packing of this rate has fewer trees."""
    trees: list[Tree] | None = None
    """The trees."""
    symmetry: Symmetry | None = None
    """How the trees of all roots follow from those that are given."""
    components: list[list[int]] | None = None
    """Groups of GPUs that reach each other."""
    certificate: Certificate | None = None
    """What proves that no rate is better."""
    comparison: list[Compared] | None = None
    """With `--compare`, other algorithms beside the trees."""
    parts: list[PartOfHybrid] | None = None
    """Of hybrid trees, those over NVLinks and those over PCIe."""
    switch_latency_s: float | None = None
    """What switching peer access takes for each GPU; `switch_s` for all of them."""
    switch_s: float | None = None
    """What switching peer access takes for all GPUs."""
    nvlink_only_time_s: float | None = None
    """Predicted time over NVLinks alone."""
    every: bool | None = None
    """With `--sweep`, whether allocations that are alike have a row each."""
    allocations: int | None = None
    """With `--sweep`, all allocations that the rows stand for."""
    rows: list[dict[str, Value]] | None = None
    """With `--sweep`, under the columns of docs/tables.md."""
    failed: list[dict[str, Value]] | None = None
    """With `--sweep`, rows whose simulation failed."""


class DimensionDocument(Part):
    """A dimension of a topology."""

    block: str
    """What connects the NPUs along the dimension."""
    size: int
    """NPUs along it."""
    links_per_npu: int
    """Links of an NPU in it."""
    link_bandwidth_bytes_per_s: int
    """Rate of one of them, on the wire."""
    link_payload_bandwidth_bytes_per_s: int
    """Payload that it carries."""
    latency_s: float
    """Its latency."""
    efficiency: float
    """Share of the rate that payload gets."""


class Links(Part):
    """Links that are alike."""

    class_: str = Field(alias="class")
    """Their class, such as NVLink."""
    node_pairs: int
    """Pairs of nodes that they connect."""
    parallel_links: int
    """Links between the two nodes of a pair."""
    link_bandwidth_bytes_per_s: int
    """Rate of one of them, on the wire."""
    link_payload_bandwidth_bytes_per_s: int
    """Payload that it carries."""
    efficiency: float
    """Share of the rate that payload gets."""
    latency_s: float
    """Its latency."""


class GpuDocument(Part):
    """A GPU as its vendor publishes it."""

    gpu: str
    """Its name here."""
    title: str
    """Its name."""
    sms: int
    """Streaming multiprocessors."""
    clock_hz: int
    """Their clock."""
    memory_bytes: int
    """Size of its memory."""
    memory_bandwidth_bytes_per_s: int
    """Bandwidth of its memory."""
    peak_flops_per_s: dict[str, int]
    """By data type."""


class TopologyShowDocument(Part):
    """What `syncline topology show --json` prints: of a product its dimensions, of a graph its nodes and links."""

    schema_version: Annotated[int, Field(ge=1)]
    """The version of the form of the document."""
    version: str
    """The version of Syncline that wrote it."""
    topology: str
    """The topology, as text."""
    npus: int
    """Its NPUs."""
    links_per_npu: int | None = None
    """Links of an NPU."""
    payload_bandwidth_bytes_per_s: int | None = None
    """Payload that the links of an NPU can carry together."""
    wire_bandwidth_bytes_per_s: int | None = None
    """What they can carry on the wire."""
    diameter_s: float | None = None
    """Latency between the NPUs that are farthest apart."""
    dims: list[DimensionDocument] | None = None
    """The dimensions of a product."""
    gpus: list[int] | None = None
    """The GPUs that take part."""
    nodes: dict[str, int] | None = None
    """How many there are of each kind."""
    links: list[Links] | None = None
    """The links, by what is alike."""
    link_unit_bytes_per_s: int | None = None
    """The rate of one link of those that trees use."""
    egress_bytes_per_s: list[int] | None = None
    """What each GPU can send."""
    connected: bool | None = None
    """Whether all GPUs reach each other."""
    nvlink_components: list[list[int]] | None = None
    """Groups of GPUs that NVLinks connect."""
    switch_buffers: list[dict[str, int]] | None = None
    """Buffers of switches, where they are stated."""
    graph: dict[str, Any] | None = None
    """As the engine takes it."""
    assumptions: list[str] | None = None
    """Values that were assumed, since nobody stated them."""
    warnings: list[str] | None = None
    """What to know before using the numbers."""
    hardware: GpuDocument | None = None
    """The GPU of the machine."""


class TopologyDetectDocument(Part):
    """What `syncline topology detect --json` prints."""

    schema_version: Annotated[int, Field(ge=1)]
    """The version of the form of the document."""
    version: str
    """The version of Syncline that wrote it."""
    source: str
    """Where the machine was found."""
    gpus: list[int]
    """The GPUs that were found."""
    trees_links: str | None
    """The links that trees should use; none where trees do not help."""
    reason: str
    """Why."""
    notes: list[str]
    """What else was found."""
    warnings: list[str] | None = None
    """What is odd about the topology, such as NVLinks that are missing."""
    content: str
    """The topology file."""
