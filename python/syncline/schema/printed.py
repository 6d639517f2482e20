"""The documents that commands print with `--json`, beside that of `run` (`documents.py`).

What a command always says is required, what it says only sometimes has a default. Numbers carry their unit in their
names: seconds `_s`, bytes `_bytes`, bytes per second `_bytes_per_s`. Later versions may say more.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from syncline.schema.documents import Cost, CostModel, Endpoint, Fidelity, Hardware, Network, Part, Status

Number = int | float
Value = bool | int | float | str | None


class Head(Part):
    """What every document begins with."""

    schema_version: Annotated[int, Field(ge=1)]
    """The version of the form of the document."""
    version: str
    """The version of Syncline that has made it."""
    status: Status
    """`partial`: something failed, or was interrupted."""
    seed: int | None
    """What random numbers come from; null where there are none."""
    assumptions: list[str]
    """What was filled in."""
    warnings: list[str]
    fidelity: Fidelity | None
    """How finely was simulated, or what took the place of a simulation."""
    cost: Cost | None = None
    """What the computation took on the machine: all that differs between two runs of the same input."""


class Candidate(Part):
    """An algorithm that `auto` has tried."""

    algorithm: str
    predicted_time_s: float | None


class AlgorithmChoice(Part):
    """What `auto` chose."""

    chosen: str
    because: str
    candidates: list[Candidate]


class SlicesChoice(Part):
    """How the slices of trees were chosen."""

    by: str
    slice_bytes: int
    because: str
    iterations: list[Any]
    """The sizes that were tried, and how long each took."""


class CollectiveDocument(Head):
    """What `syncline collective --json` prints: a collective in the terms of nccl-tests."""

    collective: str
    root: int | None
    """The rank of the root, where there is one."""
    npus: int
    ranks: int
    """NPUs of a group."""
    groups: list[str] | None
    """Who works together, where that is not all NPUs."""
    hardware: Hardware
    topology: str
    algorithm: str
    algorithm_choice: AlgorithmChoice | None = None
    slices_choice: SlicesChoice | None = None
    time_s: float
    size_bytes: int
    size_means: str
    algorithm_bandwidth_bytes_per_s: Number | None
    """Size divided by time."""
    bus_bandwidth_bytes_per_s: Number | None
    """Algorithm bandwidth times the factor of nccl-tests for the collective."""
    steps: int
    chunks: int
    lower_bound_s: float
    """What no schedule on the fabric can beat."""
    lower_bound_by: str
    efficiency: float | None
    """The lower bound over the time."""
    network: Network
    endpoint: Endpoint
    cost_model: CostModel | None = None


class Estimate(Part):
    """What running a variant takes."""

    name: str
    npus: int
    simulated_npus: int
    steps: int
    chunks_per_npu: int
    bytes_sent_per_npu: Number
    messages: int
    packets: int
    message_bytes: Number
    events: int
    memory_bytes: int
    time_s: float
    """On this machine, roughly."""
    time_told_apart_s: float | None
    """The same where a run has to tell NPUs apart that are alike."""
    recommendation: str


class CheckDocument(Head):
    """What `syncline check --json` prints."""

    estimates: list[Estimate]


class Division(Part):
    """How a model is divided, and what that takes of the memory of an NPU, at most."""

    tensor: int
    pipeline: int
    data: int
    zero: int
    recompute: str
    micro_batches: int
    fits: bool
    memory_bytes: int
    stage: int
    """The stage that needs most."""
    weights_bytes: int
    gradients_bytes: int
    optimiser_bytes: int
    activations_bytes: int
    exchange_bytes: int


class FitVariant(Part):
    """What fits of a variant."""

    name: str
    npus: int
    memory_bytes: int
    """What an NPU has."""
    candidates: int
    fitting: int
    rows: list[Division]


class FitDocument(Head):
    """What `syncline fit --json` prints."""

    name: str
    variants: list[FitVariant]


class SearchCost(Cost):
    """What a search took."""

    prediction_s: float
    rows: list[dict[str, Value]]
    """For each candidate that was simulated, what that took."""


class SearchDocument(Head):
    """What `syncline search --json` prints. The columns of rows are in docs/tables.md."""

    kind: Literal["syncline.search"]
    name: str
    description: str
    objective: str
    axes: list[str]
    """The columns that vary."""
    combinations: int
    illegal: int
    candidates: int
    fitting: int
    simulated: int
    excluded: int
    """Candidates whose bound is no better than the best simulated time."""
    open: int
    """Candidates of which neither is known whether they are better."""
    best: int | None
    """The number of the best candidate."""
    rows: list[dict[str, Value]]
    """The candidates, the best first, without columns that have no value."""
    cost: SearchCost | None = None


class SweepFailure(Part):
    """A simulation of a sweep that has no result."""

    point: int
    name: str
    variant: str
    status: str
    error: str | None


class SweepCost(Cost):
    """What a sweep took."""

    rows: list[dict[str, Value]] = Field(default=[])
    """For each simulation, what that took."""


class SweepDocument(Head):
    """What `syncline sweep --json` prints. The columns of rows are in docs/tables.md."""

    name: str
    description: str
    axes: list[str]
    points: int
    simulations: int
    rows: list[dict[str, Value]]
    """The simulations in the order of the points, without columns that have no value."""
    failed: list[SweepFailure]
    cost: SweepCost | None = None


class FigureValue(Part):
    """A number of a panel."""

    x: Value
    series: Value
    measure: str
    value: float | None
    published: float | None


class FigurePanel(Part):
    """The numbers of a panel."""

    title: str
    unit: str
    x: str
    values: list[FigureValue]


class FigureDocument(Head):
    """What `syncline figure --json` prints."""

    name: str
    title: str
    source: str
    failed: list[dict[str, Value]]
    panels: list[FigurePanel]
    timelines: list[FigurePanel]


class FittedOn(Part):
    """A published table that constants were fitted on."""

    table: str
    source: str


class Software(Part):
    """The constants of a software model."""

    name: str
    fitted_on: list[FittedOn]
    calibrated: bool
    small_size_time_s: float | None


class HostConstants(Part):
    """What a message and bytes take between processes of a host."""

    message_s: float
    bytes_per_s: float | None
    reduced_bytes_per_s: float | None


class HostErrors(Part):
    """How far predictions are off, as shares of the measured time."""

    held_out_mean: float
    held_out_most: float
    fitted_mean: float


class BenchRow(Part):
    """A size, as nccl-tests has it; predicted for a machine, or measured between processes of a host."""

    size_bytes: int
    count: int
    """Elements."""
    type: str
    redop: str | None = None
    root: int | None = None
    time_s: float
    time_low_s: float | None = None
    """Nine of ten systems of the class take no less, and no more than the next."""
    time_high_s: float | None = None
    algorithm_bandwidth_bytes_per_s: float
    bus_bandwidth_bytes_per_s: float
    algorithm: str
    protocol: str | None = None
    least_s: float | None = None
    """The shortest that was measured."""
    wrong: int | None = None
    """Elements of results that were wrong."""
    predicted_s: float | None = None
    error: float | None = None
    """The prediction over the measured time, less one."""
    is_fitted_on: bool | None = None


class BenchDocument(Head):
    """What `syncline bench --json` prints."""

    collective: str
    program: str
    """The program of nccl-tests."""
    size_means: str
    machine: str | None = None
    """The machine that is predicted; none with `--execute`."""
    gpus: str | None = None
    ranks: int
    nodes: int | None = None
    algorithm: str | None = None
    software: Software | None = None
    host: str | None = None
    """With `--execute`, where the collective was carried out."""
    transport: str | None = None
    constants: HostConstants | None = None
    rows: list[BenchRow]
    errors: HostErrors | None = None


class BySize(Part):
    """Something of small sizes and of large ones."""

    from_1mib: float | str | None = Field(alias="from_1MiB")
    below_1mib: float | str | None = Field(alias="below_1MiB")


class CalibratedSoftware(Part):
    """Constants before and after the fit; seconds, shares and factors."""

    start: str
    constants: dict[str, float]
    start_constants: dict[str, float]
    described_by: BySize


class AlphaBeta(Part):
    """A straight line through the table."""

    alpha_s: float
    beta_bytes_per_s: float | None


class Residual(Part):
    """A size: measured, fitted, and what is between them as a share."""

    size_bytes: int
    measured_s: float
    fitted_s: float
    error: float
    alpha_beta_s: float
    alpha_beta_error: float


class CalibrateDocument(Head):
    """What `syncline calibrate --json` prints."""

    table: str
    machine: str
    collective: str
    algorithm: str
    gpus: int
    nodes: int
    software: CalibratedSoftware
    alpha_beta: AlphaBeta
    residuals: list[Residual]
    mean_absolute_error: dict[str, BySize]
    """By what describes the table."""


class MeasureDocument(Head):
    """What `syncline measure --json` prints."""

    kernels: int
    shapes: str | None = None
    """The file of shapes, where only these were asked for."""
    table: str | None = None
    device: str | None = None
    torch: str | None = None
    measured: list[dict[str, Any]]
    """Kernels with `time_s`, `spread_s` and `bytes`."""


Numbers = Number | list[Number]


class Claim(Part):
    """A published figure, or several, and what was simulated."""

    id: str
    source: str
    where: str
    metric: str
    unit: str
    published: Numbers
    simulated: Numbers
    accept: list[Number] | list[list[Number]]
    """The least and the most that count as reproduced."""
    inside: bool
    note: str


class ReproduceDocument(Head):
    """What `syncline reproduce --json` prints."""

    claims: list[Claim]
    experiments: list[dict[str, Any]] = Field(default=[])
    """With `--experiments`, tables of what was varied behind claims."""
    confirmed_unfolded: list[dict[str, Any]] = Field(default=[])
    """With all claims: points that were simulated folded and unfolded."""


class Finding(Part):
    """What is wrong with a schedule, or could be; further fields say where."""

    line: int | None


class VerifyDocument(Head):
    """What `syncline verify --json` prints."""

    file: str
    format: str
    name: str
    collective: str
    in_place: bool | None
    root: int | None
    buffering: str | dict[str, int]
    verified: bool
    errors: list[Finding]
    errors_omitted: int
    flaws: list[Finding]
    flaws_omitted: int
    counts: dict[str, Number] | None
    """Of ranks, steps, messages and so on; none of a schedule that cannot be carried out."""


class ExportDocument(Head):
    """What `syncline export --json` prints."""

    collective: str
    root: int | None
    ranks: int
    topology: str
    algorithm: str
    file: str | None
    format: str
    plan: Any
    """The plan, where no file was written (`syncline schema plan`)."""


class ExportTraceDocument(Head):
    """What `syncline export-trace --json` prints."""

    format: str
    name: str
    npus: int
    folder: str
    files: list[str]


class Difference(Part):
    """Where a foreign workload means something else than here."""

    what: str
    there: str
    here: str


class ImportDocument(Head):
    """What `syncline import --json` prints; some formats say more."""

    format: str
    name: str
    files: dict[str, str]
    differences: list[Difference]
    npus: int | None = None
    nodes: int | None = None
    operators: int | None = None
    parameters: int | None = None
    forward_flops: int | None = None
    classes: list[dict[str, Value]] | None = None
    families: list[dict[str, Value]] | None = None


class ReportDocument(Part):
    """What `syncline report --json` prints: what the page is about."""

    schema_version: Annotated[int, Field(ge=1)]
    version: str | None
    status: Status | None
    name: str | None
    of: str
    variants: list[str] | None = None
    rows: int | None = None
    report: str
    """The file."""


class Listed(Part):
    """Something that has a name."""

    name: str
    says: str


class Listing(Part):
    """What there is of a kind."""

    kind: str
    given_as: str
    entries: list[Listed]


class ListDocument(Head):
    """What `syncline list --json` prints."""

    lists: list[Listing]


class InitDocument(Head):
    """What `syncline init --json` prints."""

    files: dict[str, str]
    """What was written, by what it is."""


class CompletionDocument(Head):
    """What `syncline completion --json` prints."""

    shell: str
    script: str
    file: str
    """Where the shell looks for it."""


class ProblemDocument(Part):
    """One thing that is wrong with an input."""

    file: str
    line: int | None
    field: str
    value: str | None
    message: str
    accepted: str | None


class ErrorsDocument(Part):
    """What every command prints on standard error with `--json`, and nothing else, where its input is wrong."""

    errors: Annotated[list[ProblemDocument], Field(min_length=1)]
