"""The documents that commands write and read back: what is in them, and how they are read.

Fields that a document may have are stated here once: `schema run` prints them for whoever evaluates results, and a
document that was damaged, or edited, is refused with the name of the field. Fields that are not known are let through
unread, and most may be absent, so that documents of older and newer versions can be read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from syncline._version import SCHEMA_VERSION
from syncline.base import described, json_reading, said
from syncline.base.errors import InputError, Problem, shown
from syncline.sections.experiment import NAME_ACCEPTED, NAME_PATTERN

MOST: Final = 1e30
"""No time, size, rate or count of any document reaches this."""
MOST_DEPTH: Final = 64

Amount = Annotated[float, Field(ge=0, le=MOST)] | None
Count = Annotated[int, Field(ge=0, lt=2**63)] | None
Name = Annotated[str, Field(pattern=NAME_PATTERN)]
Status = Literal["complete", "partial"]


class Part(BaseModel):
    """A mapping of a document; what is not known stays in it."""

    model_config = ConfigDict(strict=True, extra="allow")


Mixed = Literal["mixed"]
"""In place of a value, where runs differ: each of them states its own."""


class Fidelity(Part):
    """How finely was simulated; `mixed` where runs differ."""

    backend: str | None = None
    """The network model."""
    folded: bool | Mixed | None = None
    """Whether NPUs that are alike were simulated once."""
    simulated_npus: Count | Mixed = None
    """NPUs that were simulated."""
    unfolded_because: str | None = None
    """Why all NPUs were simulated, where some are alike."""
    transfer: str | None = None
    """Packets, trains of packets, or messages."""
    packet_bytes: Count | Mixed = None
    """The most payload of a packet."""
    endpoint: str | None = None
    """Of trees that are compared with other algorithms, the endpoint model of the simulations."""


class Exposure(Part):
    """Time that compute waited for a collective."""

    layer: str | None = None
    """The layer whose collective it is."""
    pass_: str | None = Field(None, alias="pass")
    """The pass that issued it."""
    exposed_s: Amount = None
    """Time that compute waited for it, over all iterations."""


class Network(Part):
    """What the network carried."""

    bytes_sent_per_npu: Amount = None
    """Mean payload of the job that an NPU sends of its own."""
    achieved_bandwidth_bytes_per_s: Amount = None
    """That payload over the time."""
    achieved_wire_bandwidth_bytes_per_s: Amount = None
    """The same with headers and padding, as on the wire."""
    payload_bandwidth_bytes_per_s: Amount = None
    """Payload that the links of an NPU can carry together."""
    wire_bandwidth_bytes_per_s: Amount = None
    """What they can carry on the wire."""
    mean_link_utilisation: Amount = None
    """From 0 to 1."""
    link_demand: Amount = None
    """Of a backend that ignores contention: the time that links would need for their bytes, over that of the run."""
    link_bytes: Amount = None
    """Bytes on all links, counted once for each link that they cross: payload, on the backend `ethernet` with headers
    and acknowledgements."""
    links: Count = None
    """Links of the machine."""
    packet_hops: Count = None
    """Packets on all links, counted once for each link that they cross."""
    dropped_bytes: Count = None
    """Bytes that switches dropped."""
    retransmissions: Count = None
    """Segments that were sent again."""
    rto_events: Count = None
    """Retransmission timers that expired."""
    rto_stalled_s: Amount = None
    """When no frame was on any link."""
    drops: Count = None
    """Frames, acknowledgements included."""
    marks: Count = None
    """Frames that switches marked (ECN)."""
    notifications: Count = None
    """Notifications of congestion (CNP) that receivers sent."""
    naks: Count = None
    """Negative acknowledgements."""
    discards: Count = None
    """Frames that receivers discarded because they came out of order."""
    pauses: Count = None
    """Pauses of priority flow control."""
    paused_s: Amount = None
    """Of all links together."""
    segments_sent: Count = None
    """Those that were sent again included."""
    flows_with_rto: Count = None
    """Connections whose retransmission timer expired."""
    fast_recoveries: Count = None
    """Losses that were repaired without a timer."""
    packets_forwarded: Count = None
    """By switches, acknowledgements included."""
    forwarded_bytes: Count = None
    """Bytes that switches forwarded."""
    connections: Count = None
    """Connections between NPUs."""
    rto_rounds: Count = None
    """How many of the least timeouts the run took, rounded down."""
    max_queue_bytes: Count = None
    """At an output of a switch."""
    rtt_p50_s: Amount = None
    """Median of all round trips that were measured."""
    rtt_p99_s: Amount = None
    """99th percentile of all round trips that were measured."""
    flow_rtt_p50_s: Amount = None
    """Of the means of connections."""
    flow_rtt_p99_s: Amount = None
    """99th percentile of the means of connections."""


class Resource(Part):
    """A resource of the endpoints, over all NPUs."""

    resource: str | None = None
    """The name of the resource."""
    servers: Count = None
    """Servers of all NPUs."""
    busy_s: Amount = None
    """Time that servers were busy, added up."""
    wait_s: Amount = None
    """Time that work waited for it, added up over all work."""
    transfer_s: Amount = None
    """Time of what it transfers, added up."""
    served: Count = None
    """Pieces of work."""


class Phase(Part):
    """FSMs of an ACE by phase."""

    phase: str | None = None
    """The phase."""
    fsms: Count = None
    """State machines that carry it out."""
    fsm_peak: Count = None
    """How many of them were busy at once, at most."""


class Partition(Part):
    """A partition of an engine's SRAM, or of a switch's memory."""

    phase: str | None = None
    """The phase that the partition is for."""
    capacity_bytes: Count = None
    """Its size."""
    peak_bytes: Count = None
    """The most of it that was held."""


class Breakdown(Part):
    """Where a chunk and its messages spent their time, as means."""

    chunks: Count = None
    """Chunks over which the means are."""
    messages: Count = None
    """Messages over which the means are."""
    chunk_queue_s: Amount = None
    """From the issue of a chunk to its start."""
    bus_queue_s: Amount = None
    """Wait of a message for buses."""
    bus_transfer_s: Amount = None
    """Time of a message on buses."""
    network_s: Amount = None
    """Time of a message in the network."""


class Endpoint(Part):
    """What the endpoints did, over all NPUs."""

    memory_read_bytes: Amount = None
    """Bytes of main memory that communication reads."""
    memory_write_bytes: Amount = None
    """Bytes of main memory that communication writes."""
    loaded_bytes: Amount = None
    """Bytes from main memory into the SRAM of engines."""
    sent_bytes: Amount = None
    """Payload that NPUs put into the network for themselves."""
    sent_by_switches_bytes: Amount = None
    """Sums and copies that switches sent."""
    transit_bytes: Amount = None
    """Payload that NPUs forwarded for others."""
    fsms: Count = None
    """State machines of an ACE."""
    fsm_peak: Count = None
    """How many of them were busy at once, at most."""
    resources: list[Resource] = []
    """Each resource of the endpoints."""
    phases: list[Phase] = []
    """State machines by phase."""
    partitions: list[Partition] = []
    """Partitions of the memory of engines or switches."""
    breakdown: Breakdown | None = None
    """Where chunks and messages spent their time."""


class CostModel(Part):
    """What an ACE costs, as synthesised."""

    of: str | None = None
    """What the numbers are of."""
    technology_nm: Amount = None
    """The technology of the synthesis."""
    area_um2: Amount = None
    """Area of one engine."""
    power_w: Amount = None
    """Power of one engine."""
    energy_per_iteration_j: Amount = None
    """Power times the time of an iteration, an upper bound."""
    energy_per_collective_j: Amount = None
    """Power times the time of the collective, an upper bound."""
    energy_means: str | None = None
    """What the energy counts."""
    iterations_per_s_per_mm2: Amount = None
    """Iterations per second and square millimetre of the engine."""
    collectives_per_s_per_mm2: Amount = None
    """Collectives per second and square millimetre of the engine."""


class Hardware(Part):
    """What the NPUs are."""

    npu: str | None = None
    """What the NPU is called."""
    gpu: str | None = None
    """As `npu.gpu` has it; null for what is no GPU that is known by name."""
    stated: list[str] = []
    """Figures that are not those of the NPU by this name."""
    precision: str | None = None
    """The data type that the peak is for, where it depends on types."""
    peak_flops_per_s: Amount = None
    """Without sparsity; null where no time follows from it."""
    sms: Count = None
    """Streaming multiprocessors."""
    clock_hz: Count = None
    """Their clock."""
    memory_bandwidth_bytes_per_s: Amount = None
    """Bandwidth of main memory."""
    memory_bytes: Amount = None
    """Size of main memory."""
    bus_bytes_per_s: Amount = None
    """Bus between the NPU and its fabric interface, each direction."""
    description: str | None = None
    """All of it in a line."""


class NpuClass(Part):
    """What the NPUs of a class did over all iterations, as the slowest of them has it. Times add up to `total_s`."""

    name: str
    """The name of the class."""
    npus: Count = None
    """Its NPUs."""
    npu: Count = None
    """The NPU whose times these are."""
    total_s: Amount = None
    """Length of the run on its slowest NPU."""
    compute_s: Amount = None
    """Time that its main stream was busy."""
    exposed_s: Amount = None
    """Time that it waited for communication."""
    bubble_s: Amount = None
    """Time that it waited for messages of other classes."""
    background_wait_s: Amount = None
    """Time that it waited for its background stream."""
    drain_s: Amount = None
    """Time after its last kernel."""


class Job(Part):
    """A job among several."""

    name: str
    """The name of the job."""
    iterations: Count = None
    """Its training iterations."""
    iteration_time_s: Amount = None
    """Length of one of them."""
    iteration_time_alone_s: Amount = None
    """With the NPUs of the other jobs idle."""
    slowdown: Amount = None
    """The time beside the others over the time alone."""


class Candidate(Part):
    """An algorithm that `auto` has looked at, with one of `predicted_time_s`, `longer_than_s` and `refused`."""

    kind: str | None = None
    """The kind of collective that it is for, where kinds may have algorithms of their own."""
    algorithm: str
    """Its name."""
    predicted_time_s: Amount = None
    """Time that was found for it."""
    estimated_from: str | None = None
    """What the time was estimated from, where it was not simulated to the end."""
    longer_than_s: Amount = None
    """Of one whose simulation was stopped since others are faster, the time that it takes longer than."""
    refused: str | None = None
    """Of one that cannot be carried out, why."""


class AlgorithmChoice(Part):
    """What `auto` chose."""

    chosen: str
    """The algorithm that was taken."""
    because: str
    """Why."""
    candidates: list[Candidate]
    """All that were looked at."""


class SlicesChoice(Part):
    """How the slices of trees were chosen."""

    by: str
    """How the size was found."""
    slice_bytes: int
    """The most bytes of a slice."""
    because: str
    """Why."""
    iterations: list[Any]
    """The sizes that were tried, and how long each took."""


class Run(Part):
    """A variant that was simulated. Times are seconds, sizes bytes, rates bytes per second."""

    name: Name
    """The variant."""
    iterations: Count = None
    """Iterations of the training loop, of which a collective on its own has none."""
    iteration_time_s: Amount = None
    """The mean over the iterations; of a collective on its own, its time."""
    steady_iteration_time_s: Amount = None
    """What one more iteration costs in a long run."""
    steady_iteration_because: str | None = None
    """Why that is not `iteration_time_s`, where they differ by more than 2 %."""
    steady_iteration_settled: bool | None = None
    """Whether the last iterations that were simulated took equally long; if not, the time is a mean."""
    speedup: Amount = None
    """The time of the baseline over that of the variant."""
    share_of_ideal: Amount = None
    """The time of the variant called ideal over that of this one."""
    collective: str | None = None
    """Of a collective on its own, which; what follows is as nccl-tests counts it."""
    root: Count = None
    """The rank of the root, of a collective that has one."""
    ranks: Count = None
    """NPUs of a group."""
    groups: list[str] | None = None
    """Groups that run the collective side by side."""
    time_s: Amount = None
    """Time of the collective."""
    size_bytes: Amount = None
    """Size of the collective, as nccl-tests counts it."""
    size_means: str | None = None
    """What the size counts."""
    algorithm_bandwidth_bytes_per_s: Amount = None
    """The size over the time."""
    bus_bandwidth_bytes_per_s: Amount = None
    """Algorithm bandwidth times the factor of nccl-tests for the collective."""
    lower_bound_s: Amount = None
    """What no schedule on the fabric can beat."""
    lower_bound_by: str | None = None
    """Why no schedule can be faster than the lower bound."""
    efficiency: Amount = None
    """The lower bound over the time."""
    total_time_s: Amount = None
    """Length of the run."""
    compute_time_s: Amount = None
    """Over all iterations."""
    compute_time_alone_s: Amount = None
    """Compute time as it would be without communication beside it."""
    exposed_comm_s: Amount = None
    """Exposed communication over all iterations."""
    exposed_comm_share: Amount = None
    """Share of the total time that compute waited for communication."""
    drain_s: Amount = None
    """Time after the last kernel, with `training.tail: drain`."""
    background_compute_time_s: Amount = None
    """Time that the background stream was busy."""
    background_compute_time_alone_s: Amount = None
    """The same as it would be with nothing beside it."""
    background_wait_s: Amount = None
    """Time that the main stream waited for the background stream."""
    bubble_s: Amount = None
    """Waits for messages of other classes of NPUs, over all iterations."""
    peak_share: Amount = None
    """Share of `npu.peak` that the operations of a training reach, those that are computed again included (hardware
    FLOPs utilisation): the mean of all NPUs, and of several jobs the largest."""
    classes: list[NpuClass] = []
    """Where NPUs run several graphs, what those of each did."""
    jobs: list[Job] = []
    """Of several jobs, how long each takes beside the others and alone."""
    exposed_by_collective: list[Exposure] = []
    """The collectives that compute waited for, and how long."""
    engine_utilisation_forward: Amount = None
    """Share of the forward passes in which an ACE held a chunk."""
    engine_utilisation_backward: Amount = None
    """Share of the back-propagations in which an ACE held a chunk."""
    npus: Count = None
    """NPUs of the machine."""
    npu: Count = None
    """The NPU whose times these are."""
    hardware: Hardware | None = None
    """The NPU as hardware."""
    topology: str | None = None
    """The topology, as text."""
    link_classes: list[str] | None = None
    """Classes of links, such as NVLink and PCIe, and what they carried."""
    algorithm: str | None = None
    """How ranks worked together."""
    algorithm_choice: AlgorithmChoice | None = None
    """How the algorithm was chosen, where none was asked for."""
    slices_choice: SlicesChoice | None = None
    """How the size of slices was found, where that was asked for."""
    steps: Count = None
    """Steps of a chunk."""
    chunks: Count = None
    """Chunks that an NPU has, over all its collectives."""
    network: Network | None = None
    """What the network carried."""
    endpoint: Endpoint | None = None
    """What endpoints did."""
    cost_model: CostModel | None = None
    """What an engine costs."""
    fidelity: Fidelity | None = None
    """How finely was simulated."""
    warnings: list[str] = []
    """What to know before using the numbers."""


class Failure(Part):
    """A variant whose simulation failed."""

    name: str
    """The variant."""
    message: str
    """Why it failed."""


class Cost(Part):
    """What the computation took on the machine: all that differs between two runs of the same input."""

    wall_time_s: Amount = None
    """Time that passed."""
    cpu_time_s: Amount = None
    """Of the engine alone."""
    peak_rss_bytes: Count = None
    """The most memory that the process held."""
    events: Count = None
    """Events of the engine."""
    packet_hops: Count = None
    """Packets on all links, counted once for each link that they cross."""


class RunDocument(Part):
    """What `syncline run --json` prints, and `summary.json` of a run directory."""

    schema_version: Annotated[int, Field(ge=1)]
    """The version of the form of the document."""
    version: str | None = None
    """The version of Syncline that simulated."""
    status: Status
    """`partial`: a simulation failed, or the run was interrupted."""
    seed: Count = None
    """The seed of what is random."""
    assumptions: list[str] = []
    """What was filled in."""
    warnings: list[str] = []
    """What to know before using the numbers."""
    fidelity: Fidelity | None = None
    """What all runs have in common."""
    name: str | None = None
    """The name of the experiment."""
    description: str | None = None
    """The description of the experiment."""
    baseline: str | None = None
    """The variant that speed-ups are over."""
    ideal: str | None = None
    """The variant that is called ideal, if there are others."""
    runs: list[Run]
    """The variants in the order of the file."""
    failed: list[Failure] = []
    """Variants whose simulations failed."""
    cost: Cost | None = None
    """What the computation took."""


class Manifest(Part):
    """`manifest.json` of a run directory."""

    schema_version: Annotated[int, Field(ge=1)] = SCHEMA_VERSION
    """The version of the form of the document."""
    kind: Literal["syncline run"]
    """What the directory holds."""
    version: str | None = None
    """The version of Syncline that wrote it."""
    status: Status
    """Whether all of the run is there."""
    name: str | None = None
    """The name of the experiment."""
    config_hash: str | None = None
    """A hash of the complete experiment."""
    seed: Count = None
    """The seed of what is random."""
    command: str = ""
    """The command that reproduces the run."""
    variants: list[Name]
    """Those that are finished; each has a directory."""


class SweepTable(Part):
    """What the table of a sweep says about itself, in its metadata."""

    name: str
    """The name of the sweep."""
    version: str | None = None
    """The version of Syncline that wrote it."""
    status: Status
    """Whether all rows are there."""
    axes: list[str]
    """The columns that the sweep varies."""


def schema_of(document: type[Part], of: str) -> dict[str, Any]:
    """The JSON Schema of the document that a command prints."""
    schema = described.json_schema(document)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": f"Syncline {of}"}


def json_schema() -> dict[str, Any]:
    """The JSON Schema of the document of `run`."""
    return schema_of(RunDocument, "run")


def read(data: bytes, file: str, model: type[BaseModel]) -> dict[str, Any]:
    """A document from its JSON text. Raises [`InputError`] with every field that cannot be read."""

    def refuse(message: str, line: int | None = None) -> InputError:
        return InputError([Problem(file, line, "", None, message)])

    try:
        value = json_reading.parse(data.decode("utf-8"))
    except UnicodeDecodeError:
        raise refuse("this is not UTF-8 text") from None
    except json_reading.NotJsonError as error:
        raise refuse(f"this is not valid JSON: {error.reason}", error.line) from None
    problems = [*_illegible(value, file, ()), *_newer(value, file)]
    if problems:
        raise InputError(problems)
    try:
        model.model_validate(value)
    except ValidationError as error:
        raise InputError(_problems(error, file)) from None
    assert isinstance(value, dict)
    return value


def _newer(value: object, file: str) -> Iterator[Problem]:
    """A document of a form that is not known yet."""
    version = value.get("schema_version") if isinstance(value, dict) else None
    if isinstance(version, int) and version > SCHEMA_VERSION:
        message = "this was written by a newer Syncline"
        yield Problem(file, None, "schema_version", str(version), message, f"up to {SCHEMA_VERSION}")


def _illegible(value: object, file: str, path: tuple[str, ...]) -> Iterator[Problem]:
    """Text that is no Unicode, numbers beyond all bounds and nesting without end, wherever they stand."""
    if len(path) > MOST_DEPTH:
        yield Problem(file, None, ".".join(path[:4]), None, f"nested deeper than {MOST_DEPTH} levels")
    elif isinstance(value, str):
        if not _is_unicode(value):
            yield Problem(file, None, ".".join(path), shown(value), "this is not legal text (half a character)")
    elif isinstance(value, int | float) and not -MOST <= value <= MOST:
        yield Problem(file, None, ".".join(path), None, "this number is too large")
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from _illegible(item, file, (*path, str(i)))
    elif isinstance(value, dict):
        for key, item in value.items():
            legible = key if _is_unicode(key) else ascii(key)
            if legible != key:
                yield Problem(file, None, ".".join((*path, legible)), None, "this key is not legal text")
            yield from _illegible(item, file, (*path, legible))


def _is_unicode(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text)


def _problems(error: ValidationError, file: str) -> Iterator[Problem]:
    for details in error.errors(include_url=False):
        field = ".".join(str(key) for key in details["loc"])
        message, accepted = _MESSAGES.get(details["type"]) or said.of(details)
        value = None if details["type"] == "missing" else details["input"]
        if details["type"] == "literal_error":
            accepted = str(details["ctx"]["expected"])
        yield Problem(file, None, field, shown(value), message, accepted)


_MESSAGES: Final = {
    "string_type": ("this is not text", None),
    "string_pattern_mismatch": ("this is not a legal name", NAME_ACCEPTED),
    "bool_type": ("this is neither true nor false", None),
    "greater_than_equal": ("this is too small", "0 or more"),
    "less_than": ("this is too large", None),
    "less_than_equal": ("this is too large", None),
}
"""What a reader is told of errors that mean something else here than in other files."""
