"""The documents that `trees` and `topology` print with `--json`: what is said of fabrics. See `printed.py`."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from syncline.schema.documents import Part
from syncline.schema.printed import Head, Value


class Tree(Part):
    """A spanning tree, by the numbers of GPUs."""

    root: int
    weight: float
    """Its share of the rate, in links."""
    edges: list[list[int]]
    depth: int
    via: list[list[str]]
    """For each edge, the switches that it goes through."""
    collective: str | None = None
    """The part of an all-reduce that it is for, where there are several."""
    part_of: int | None = None
    """The GPU whose part of the data it carries."""
    edges_to_root: list[list[int]] | None = None
    via_to_root: list[list[str]] | None = None


class Symmetry(Part):
    """By which trees of all roots follow from those of one."""

    roots: int
    generators: list[list[int]]


class Times(Part):
    """How often a set counts in a certificate."""

    set: list[int]
    inward: bool
    times: int


class Certificate(Part):
    """What proves that no schedule is faster."""

    sets: list[list[str]]
    """Nodes whose borders limit the rate."""
    capacity_links: float
    rate_links: float
    times: list[Times]


class Compared(Part):
    """An algorithm that was simulated beside trees, or the bound, which has none."""

    name: str
    algorithm: str | None
    theory_bytes_per_s: float | None
    theory_over: str | None
    over: list[str] | None
    """The classes of links that it sent something over."""
    time_s: float | None
    algorithm_bandwidth_bytes_per_s: float | None
    bus_bandwidth_bytes_per_s: float | None
    steps: int | None
    share_of_bound: float | None
    reason: str | None
    """Why there is no time."""


class PartOfHybrid(Part):
    """The trees over one kind of links, and their part of the data."""

    links: str
    rate_links: float
    optimal_rate_links: float
    rate_bytes_per_s: float
    predicted_time_s: float | None
    size_bytes: int
    trees: list[Tree]
    components: list[list[int]]
    certificate: Certificate | None


class TreesDocument(Head):
    """What `syncline trees --json` prints: of an allocation its trees, or with `--sweep` a row for each of all."""

    machine: str
    gpus: list[int] | None = None
    collective: str
    links: str
    objective: str | None = None
    threshold: float | None = None
    link_unit_bytes_per_s: int | None = None
    rate_links: float | None = None
    optimal_rate_links: float | None = None
    rate_bytes_per_s: float | None = None
    predicted_time_s: float | None = None
    predicted_times_s: dict[str, float] | None = None
    slices: int | None = None
    overhead_s: float | None = None
    size_bytes: int
    fewest_possible: int | None = None
    trees: list[Tree] | None = None
    symmetry: Symmetry | None = None
    components: list[list[int]] | None = None
    certificate: Certificate | None = None
    comparison: list[Compared] | None = None
    parts: list[PartOfHybrid] | None = None
    """Of hybrid trees, those over NVLinks and those over PCIe."""
    switch_latency_s: float | None = None
    """What switching peer access takes for each GPU; `switch_s` for all of them."""
    switch_s: float | None = None
    nvlink_only_time_s: float | None = None
    every: bool | None = None
    allocations: int | None = None
    rows: list[dict[str, Value]] | None = None
    """With `--sweep`, under the columns of docs/tables.md."""
    failed: list[dict[str, Value]] | None = None


class DimensionDocument(Part):
    """A dimension of a topology."""

    block: str
    size: int
    links_per_npu: int
    link_bandwidth_bytes_per_s: int
    link_payload_bandwidth_bytes_per_s: int
    latency_s: float
    efficiency: float


class Links(Part):
    """Links that are alike."""

    class_: str = Field(alias="class")
    node_pairs: int
    parallel_links: int
    link_bandwidth_bytes_per_s: int
    link_payload_bandwidth_bytes_per_s: int
    efficiency: float
    latency_s: float


class GpuDocument(Part):
    """A GPU as its vendor publishes it."""

    gpu: str
    title: str
    sms: int
    clock_hz: int
    memory_bytes: int
    memory_bandwidth_bytes_per_s: int
    peak_flops_per_s: dict[str, int]
    """By data type."""


class TopologyShowDocument(Part):
    """What `syncline topology show --json` prints: of a product its dimensions, of a graph its nodes and links."""

    schema_version: Annotated[int, Field(ge=1)]
    version: str
    topology: str
    npus: int
    links_per_npu: int | None = None
    payload_bandwidth_bytes_per_s: int | None = None
    wire_bandwidth_bytes_per_s: int | None = None
    diameter_s: float | None = None
    dims: list[DimensionDocument] | None = None
    gpus: list[int] | None = None
    nodes: dict[str, int] | None = None
    """How many there are of each kind."""
    links: list[Links] | None = None
    link_unit_bytes_per_s: int | None = None
    egress_bytes_per_s: list[int] | None = None
    connected: bool | None = None
    nvlink_components: list[list[int]] | None = None
    switch_buffers: list[dict[str, int]] | None = None
    graph: dict[str, Any] | None = None
    """As the engine takes it."""
    assumptions: list[str] | None = None
    warnings: list[str] | None = None
    hardware: GpuDocument | None = None


class TopologyDetectDocument(Part):
    """What `syncline topology detect --json` prints."""

    schema_version: Annotated[int, Field(ge=1)]
    version: str
    source: str
    gpus: list[int]
    trees_links: str | None
    reason: str
    notes: list[str]
    content: str
    """The topology file."""
