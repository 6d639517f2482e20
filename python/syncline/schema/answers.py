"""The documents of `explain` and `diff`: what is in them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from syncline.schema.documents import Amount, Cost, Count, Fidelity, Name, Part, Status

What = Literal["compute", "phase", "queue", "start", "elsewhere", "collective", "bubble", "background", "idle"]
StepKind = Literal["compute", "exposed", "communication", "bubble", "background", "drain", "start"]
Difference = Annotated[int, Field(gt=-(2**63), lt=2**63)]
Signed = Annotated[float, Field(ge=-1e30, le=1e30)] | None


class PathPart(Part):
    """A part of the critical path of a run."""

    what: What
    name: str
    """The pass of compute, the phase of a collective, or what was waited for."""
    collective: str | None = None
    """The kind of the collective."""
    ps: Annotated[int, Field(ge=0, lt=2**63)]
    """Picoseconds of the whole run; those of all parts add up to `total_ps`."""
    time_s: float
    """Of an iteration."""
    share: Annotated[float, Field(ge=0, le=1)] | None
    links_busy_ps: Count = None
    """Of a phase, picoseconds in which its links were busy, the mean of them."""
    links_busy_share: Amount = None


class Resource(Part):
    """What was in use on the critical path."""

    name: str
    """`compute`, `links of dim 1`, `memory of the endpoint`, `latency and other NPUs`, `room for chunks` and so on."""
    ps: Annotated[int, Field(ge=0, lt=2**63)]
    """Picoseconds of the whole run; those of all add up to `total_ps`."""
    share: Annotated[float, Field(ge=0, le=1)] | None


class Limit(Part):
    """What limits a system."""

    name: str
    """`compute`, `latency`, `chunks in flight`, `links of CLASS`, `endpoint memory`, `SRAM`, `FSMs`, `time-outs` and so
    on; `nothing` where no single change helps."""
    by: Literal["reruns", "accounting"]
    because: str
    """The evidence."""
    by_accounting: str
    """What records of the run name."""


class Evidence(Part):
    """Something that was measured of a run."""

    what: str
    name: str
    value: Amount
    unit: str


class WhatIf(Part):
    """A rerun with one thing changed."""

    change: str
    what: Literal["relief", "alternative"]
    """Whether there is twice as much of something, or another choice."""
    relieves: str | None
    """The limit that a relief takes away."""
    iteration_time_s: Amount
    gain: Signed
    """The part of the time that it saves; null if it could not be run."""
    set: list[str]
    """`PATH=VALUE`, as `--set` takes them."""
    command: str
    """What repeats it."""
    refused: str | None
    """Why it could not be run."""


class SystemReasons(Part):
    """Why a system takes as long as it does."""

    name: Name
    iteration_time_s: Amount
    iterations: Count
    npu: Count
    """The NPU whose critical path it is."""
    total_ps: Annotated[int, Field(ge=0, lt=2**63)]
    """Picoseconds of the whole run."""
    critical_path: list[PathPart]
    by_resource: list[Resource]
    """The same path, by what was in use."""
    collectives: Count
    in_flight_at_end: Count
    """Collectives that were not complete when the run ended."""
    limit: Limit
    network_is_idle: str | None
    """Said where the time does not react to the network."""
    evidence: list[Evidence]
    what_if: list[WhatIf] | None
    """By gain; null without reruns."""


class _Document(Part):
    """What both begin with."""

    schema_version: Annotated[int, Field(ge=1)]
    version: str | None = None
    status: Status
    """`partial`: reruns were interrupted."""
    seed: Count = None
    assumptions: list[str] = Field(default=[])
    warnings: list[str] = Field(default=[])
    cost: Cost | None = None


class ExplainDocument(_Document):
    """What `syncline explain --json` prints, and `explain.json` of a run directory."""

    fidelity: Fidelity | None = None
    name: str | None = None
    what_if: bool
    """Whether there were reruns."""
    systems: list[SystemReasons]


class Side(Part):
    """One of two runs that are compared."""

    name: str
    source: str
    systems: list[str]


class Step(Part):
    """A part of an iteration in both runs, in picoseconds."""

    what: StepKind
    name: str
    collective: str | None = None
    a_ps: Difference
    b_ps: Difference
    delta_ps: Difference
    """Those of all steps add up to that of the pair."""
    delta_s: float


class Pair(Part):
    """Two systems that are compared, by an iteration of each or by a collective on its own."""

    system_a: str
    system_b: str
    iteration_time_a_s: Amount
    iteration_time_b_s: Amount
    a_ps: Difference
    """Picoseconds, rounded down."""
    b_ps: Difference
    delta_ps: Difference
    ratio: Amount
    """The second time over the first."""
    steps: list[Step]


class Unmatched(Part):
    """Systems that were not compared."""

    a: list[str]
    b: list[str]


class DiffDocument(_Document):
    """What `syncline diff --json` prints."""

    a: Side
    b: Side
    pairs: list[Pair]
    unmatched: Unmatched
