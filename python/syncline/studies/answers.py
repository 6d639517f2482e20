"""The documents of `explain` and `diff`: what is in them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from syncline.results.documents import Amount, Cost, Count, Fidelity, Name, Part, Status

What = Literal["compute", "phase", "queue", "start", "elsewhere", "collective", "bubble", "background", "idle"]
StepKind = Literal["compute", "exposed", "communication", "bubble", "background", "drain", "start"]
Difference = Annotated[int, Field(gt=-(2**63), lt=2**63)]
Signed = Annotated[float, Field(ge=-1e30, le=1e30)] | None


class PathPart(Part):
    """A part of the critical path of a run."""

    what: What
    """The kind of part: compute, a phase of a collective, a wait."""
    name: str
    """The pass of compute, the phase of a collective, or what was waited for."""
    collective: str | None = None
    """The kind of the collective."""
    ps: Annotated[int, Field(ge=0, lt=2**63)]
    """Picoseconds of the whole run; those of all parts add up to `total_ps`."""
    time_s: float
    """Of an iteration."""
    share: Annotated[float, Field(ge=0, le=1)] | None
    """Share of the iteration."""
    links_busy_ps: Count = None
    """Of a phase, picoseconds in which its links were busy, the mean of them."""
    links_busy_share: Amount = None
    """Share of its time in which the links of its phase carried something."""


class Resource(Part):
    """What was in use on the critical path."""

    name: str
    """`compute`, `links of dim 1`, `memory of the endpoint`, `latency and other NPUs`, `room for chunks` and so on."""
    ps: Annotated[int, Field(ge=0, lt=2**63)]
    """Picoseconds of the whole run; those of all add up to `total_ps`."""
    share: Annotated[float, Field(ge=0, le=1)] | None
    """Share of the critical path in which it was in use."""


class Limit(Part):
    """What limits a system."""

    name: str
    """`compute`, `latency`, `chunks in flight`, `links of CLASS`, `endpoint memory`, `SRAM`, `FSMs`, `time-outs` and so
    on; `nothing` where no single change helps."""
    by: Literal["reruns", "accounting"]
    """What limits the system."""
    because: str
    """The evidence."""
    by_accounting: str
    """What records of the run name."""


class Evidence(Part):
    """Something that was measured of a run."""

    what: str
    """The kind of thing that was measured."""
    name: str
    """Which of its kind."""
    value: Amount
    """What was measured."""
    unit: str
    """The unit of the value."""


class WhatIf(Part):
    """A rerun with one thing changed."""

    change: str
    """What is changed, in words."""
    what: Literal["relief", "alternative"]
    """Whether there is twice as much of something, or another choice."""
    relieves: str | None
    """The limit that a relief takes away."""
    iteration_time_s: Amount
    """Length of an iteration with the change."""
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
    """The name of the system."""
    iteration_time_s: Amount
    """Length of an iteration."""
    iterations: Count
    """Training iterations of the run."""
    npu: Count
    """The NPU whose critical path it is."""
    total_ps: Annotated[int, Field(ge=0, lt=2**63)]
    """Picoseconds of the whole run."""
    critical_path: list[PathPart]
    """The parts of the critical path, the longest first."""
    by_resource: list[Resource]
    """The same path, by what was in use."""
    collectives: Count
    """The critical path by kinds of collectives."""
    in_flight_at_end: Count
    """Collectives that were not complete when the run ended."""
    limit: Limit
    """What limits the system."""
    network_is_idle: str | None
    """Said where the time does not react to the network."""
    evidence: list[Evidence]
    """What was measured that speaks for it."""
    what_if: list[WhatIf] | None
    """By gain; null without reruns."""


class _Document(Part):
    """What both begin with."""

    schema_version: Annotated[int, Field(ge=1)]
    """The version of the form of the document."""
    version: str | None = None
    """The version of Syncline that wrote it."""
    status: Status
    """`partial`: reruns were interrupted."""
    seed: Count = None
    """The seed of what is random."""
    assumptions: list[str] = Field(default=[])
    """Values that were assumed, since nobody stated them."""
    warnings: list[str] = Field(default=[])
    """What to know before using the numbers."""
    cost: Cost | None = None
    """What the computation took."""


class ExplainDocument(_Document):
    """What `syncline explain --json` prints, and `explain.json` of a run directory."""

    fidelity: Fidelity | None = None
    """How finely was simulated."""
    name: str | None = None
    """The name of the experiment."""
    what_if: bool
    """Whether there were reruns."""
    systems: list[SystemReasons]
    """The answer for each system."""


class Side(Part):
    """One of two runs that are compared."""

    name: str
    """The name of the experiment."""
    source: str
    """Where it was read."""
    systems: list[str]
    """Its systems."""


class Step(Part):
    """A part of an iteration in both runs, in picoseconds."""

    what: StepKind
    """The kind of part of an iteration."""
    name: str
    """Which of its kind."""
    collective: str | None = None
    """The kind of collective that it belongs to."""
    a_ps: Difference
    """Its time in A, exactly."""
    b_ps: Difference
    """Its time in B, exactly."""
    delta_ps: Difference
    """Those of all steps add up to that of the pair."""
    delta_s: float
    """Its time in B less that in A."""


class Pair(Part):
    """Two systems that are compared, by an iteration of each or by a collective on its own."""

    system_a: str
    """The system of A."""
    system_b: str
    """The system of B."""
    iteration_time_a_s: Amount
    """Length of an iteration of A."""
    iteration_time_b_s: Amount
    """Length of an iteration of B."""
    a_ps: Difference
    """Picoseconds, rounded down."""
    b_ps: Difference
    """Length of an iteration of B, exactly."""
    delta_ps: Difference
    """The difference, exactly: B less A."""
    ratio: Amount
    """The second time over the first."""
    steps: list[Step]
    """The parts of an iteration, which add up to the difference."""


class Unmatched(Part):
    """Systems that were not compared."""

    a: list[str]
    """Systems of A alone."""
    b: list[str]
    """Systems of B alone."""


class DiffDocument(_Document):
    """What `syncline diff --json` prints."""

    a: Side
    """The run that is A."""
    b: Side
    """The run that is B."""
    pairs: list[Pair]
    """Systems that are compared, one of A with one of B."""
    unmatched: Unmatched
    """Systems that have no counterpart."""
