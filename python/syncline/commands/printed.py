"""The documents that commands print with `--json`, beside that of `run` (`documents.py`).

What a command always says is required, what it says only sometimes has a default. Numbers carry their unit in their
names: seconds `_s`, bytes `_bytes`, bytes per second `_bytes_per_s`. Later versions may say more.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from syncline.results.documents import (
    AlgorithmChoice,
    Cost,
    CostModel,
    Endpoint,
    Fidelity,
    Hardware,
    Network,
    Part,
    SlicesChoice,
    Status,
)

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
    """What to know before using the numbers."""
    fidelity: Fidelity | None
    """How finely was simulated, or what took the place of a simulation."""
    cost: Cost | None = None
    """What the computation took on the machine: all that differs between two runs of the same input."""


class CollectiveDocument(Head):
    """What `syncline collective --json` prints: a collective in the terms of nccl-tests."""

    collective: str
    """The kind of collective."""
    root: int | None
    """The rank of the root, where there is one."""
    npus: int
    """NPUs of the machine."""
    ranks: int
    """NPUs of a group."""
    groups: list[str] | None
    """Who works together, where that is not all NPUs."""
    hardware: Hardware
    """The NPU as hardware."""
    topology: str
    """The topology, as text."""
    algorithm: str
    """How ranks worked together."""
    algorithm_choice: AlgorithmChoice | None = None
    """How the algorithm was chosen, where none was asked for."""
    slices_choice: SlicesChoice | None = None
    """How the size of slices was found, where that was asked for."""
    time_s: float
    """Time of the collective."""
    size_bytes: int
    """Its size, as nccl-tests counts it."""
    size_means: str
    """What the size counts."""
    algorithm_bandwidth_bytes_per_s: Number | None
    """Size divided by time."""
    bus_bandwidth_bytes_per_s: Number | None
    """Algorithm bandwidth times the factor of nccl-tests for the collective."""
    steps: int
    """Steps of a chunk."""
    chunks: int
    """Chunks of an NPU."""
    lower_bound_s: float
    """What no schedule on the fabric can beat."""
    lower_bound_by: str
    """Why no schedule can be faster than the lower bound."""
    efficiency: float | None
    """The lower bound over the time."""
    network: Network
    """What the network carried."""
    endpoint: Endpoint
    """What endpoints did."""
    cost_model: CostModel | None = None
    """What an engine costs."""


class Estimate(Part):
    """What running a variant takes."""

    name: str
    """Name of the variant."""
    npus: int
    """NPUs of the topology."""
    simulated_npus: int
    """NPUs that are simulated; the others are like them."""
    steps: int
    """Steps of the longest path of a collective."""
    chunks_per_npu: int
    """Chunks of an NPU, over the whole run."""
    bytes_sent_per_npu: Number
    """Mean payload that an NPU sends."""
    messages: int
    """Messages of simulated NPUs."""
    packets: int
    """Packets of simulated NPUs."""
    message_bytes: Number
    """Mean size of a message."""
    events: int
    """Events of the simulation, roughly."""
    memory_bytes: int
    """Memory that the simulation takes, roughly."""
    time_s: float
    """On this machine, roughly."""
    time_told_apart_s: float | None
    """The same where a run has to tell NPUs apart that are alike."""
    recommendation: str
    """Which backend suits the run."""


class CheckDocument(Head):
    """What `syncline check --json` prints."""

    estimates: list[Estimate]
    """What running each variant takes, roughly."""


class Division(Part):
    """How a model is divided, and what that takes of the memory of an NPU, at most."""

    tensor: int
    """NPUs that share each layer."""
    pipeline: int
    """Stages of the pipeline."""
    data: int
    """Copies of the model."""
    zero: int
    """Stage of ZeRO."""
    recompute: str
    """What is computed again in back-propagation."""
    micro_batches: int
    """Micro-batches of an iteration."""
    fits: bool
    """Whether the memory of an NPU suffices."""
    memory_bytes: int
    """Memory of an NPU of the stage that needs most."""
    stage: int
    """The stage that needs most."""
    weights_bytes: int
    """Weights in it."""
    gradients_bytes: int
    """Gradients in it."""
    optimiser_bytes: int
    """State of the optimiser in it."""
    activations_bytes: int
    """Activations in it."""
    exchange_bytes: int
    """Buffers of communication in it."""
    libraries_bytes: int
    """Workspaces of matrix products in it."""


class FitVariant(Part):
    """What fits of a variant."""

    name: str
    """The variant."""
    npus: int
    """NPUs that train."""
    memory_bytes: int
    """Memory of an NPU."""
    reserved_bytes: int
    """What a model does not get of it: CUDA's context and the buffers of NCCL."""
    available_bytes: int
    """What is left for a model: `fits` compares with this."""
    candidates: int
    """Divisions that are legal."""
    fitting: int
    """Those of them that fit into memory."""
    least: Division | None
    """The one that needs least memory, whether it fits or not."""
    rows: list[Division]
    """The divisions."""


class FitDocument(Head):
    """What `syncline fit --json` prints."""

    name: str
    """The name of the experiment."""
    variants: list[FitVariant]
    """The divisions of each variant."""


class SearchCost(Cost):
    """What a search took."""

    prediction_s: float
    """Time of reading, bounding and estimating candidates."""
    rows: list[dict[str, Value]]
    """For each candidate that was simulated, what that took."""


class SearchDocument(Head):
    """What `syncline search --json` prints. The columns of rows are in docs/tables.md."""

    kind: Literal["syncline.search"]
    """Says that this is what a search prints."""
    name: str
    """The name of the experiment."""
    description: str
    """The description of the experiment."""
    objective: str
    """What is to be best."""
    axes: list[str]
    """The columns that vary."""
    combinations: int
    """Combinations of the values of all axes."""
    illegal: int
    """Those that are no division of the training."""
    candidates: int
    """Divisions that were looked at."""
    fitting: int
    """Those that fit into memory."""
    simulated: int
    """Those that were simulated."""
    excluded: int
    """Candidates whose bound is no better than the best simulated time."""
    open: int
    """Candidates of which neither is known whether they are better."""
    best: int | None
    """The number of the best candidate."""
    rows: list[dict[str, Value]]
    """The candidates, the best first, without columns that have no value."""
    cost: SearchCost | None = None
    """What the computation took."""


class SweepFailure(Part):
    """A simulation of a sweep that has no result."""

    point: int
    """The number of the point."""
    name: str
    """The values of the point."""
    variant: str
    """The variant."""
    status: str
    """Whether the simulation failed, or was refused."""
    error: str | None
    """Why."""


class SweepCost(Cost):
    """What a sweep took."""

    rows: list[dict[str, Value]] = Field(default=[])
    """For each simulation, what that took."""


class SweepDocument(Head):
    """What `syncline sweep --json` prints. The columns of rows are in docs/tables.md."""

    name: str
    """The name of the sweep."""
    description: str
    """The description of the sweep."""
    axes: list[str]
    """Columns of the fields that vary."""
    points: int
    """Points of the sweep."""
    simulations: int
    """Simulations: a point has one for each variant."""
    rows: list[dict[str, Value]]
    """The simulations in the order of the points, without columns that have no value."""
    failed: list[SweepFailure]
    """Simulations that failed or were refused."""
    cost: SweepCost | None = None
    """What the computation took."""


class FigureValue(Part):
    """A number of a panel."""

    x: Value
    """Where it stands on the horizontal axis."""
    series: Value
    """The bar of a group, or the line, that it belongs to."""
    measure: str
    """The column that is shown."""
    value: float | None
    """The simulated value."""
    published: float | None
    """The published value."""


class FigurePanel(Part):
    """The numbers of a panel."""

    title: str
    """What stands above the panel."""
    unit: str
    """The unit of its values."""
    x: str
    """The column of the horizontal axis."""
    values: list[FigureValue]
    """Everything that it shows."""


class FigureDocument(Head):
    """What `syncline figure --json` prints."""

    name: str
    """The name of the figure."""
    title: str
    """What stands above all panels."""
    source: str
    """Where the published values are from."""
    failed: list[dict[str, Value]]
    """Simulations that failed or were refused."""
    panels: list[FigurePanel]
    """The charts."""
    timelines: list[FigurePanel]
    """The time lines."""


class FittedOn(Part):
    """A published table that constants were fitted on."""

    table: str
    """The name of the table."""
    source: str
    """Where it was published."""


class Software(Part):
    """The constants of a software model."""

    name: str
    """The class of machines whose constants are used."""
    fitted_on: list[FittedOn]
    """The tables that they were fitted on."""
    calibrated: bool
    """Whether they come from a table of the user."""
    small_size_time_s: float | None
    """How long 8 bytes take, where that was given."""


class HostConstants(Part):
    """What a message and bytes take between processes of a host."""

    message_s: float
    """What a message takes."""
    bytes_per_s: float | None
    """Rate of bytes from memory to memory."""
    reduced_bytes_per_s: float | None
    """Rate of bytes that are added."""


class HostErrors(Part):
    """How far predictions are off, as shares of the measured time."""

    held_out_mean: float
    """Mean error over sizes that nothing was fitted on."""
    held_out_most: float
    """Largest error over these sizes."""
    fitted_mean: float
    """Mean error over sizes that constants were fitted on."""


class BenchRow(Part):
    """A size, as nccl-tests has it; predicted for a machine, or measured between processes of a host."""

    size_bytes: int
    """Size of the collective."""
    count: int
    """Elements."""
    type: str
    """Type of the elements."""
    redop: str | None = None
    """Reduction, or none."""
    root: int | None = None
    """Rank of the root; -1 without one."""
    time_s: float
    """Time of the collective: predicted, or with --execute measured."""
    time_low_s: float | None = None
    """Nine of ten systems of the class take no less, and no more than the next."""
    time_high_s: float | None = None
    """The other end of that interval."""
    algorithm_bandwidth_bytes_per_s: float
    """Size divided by time, as in nccl-tests."""
    bus_bandwidth_bytes_per_s: float
    """Algorithm bandwidth times the factor of nccl-tests for the collective."""
    algorithm: str
    """Algorithm that NCCL, or the collective library, takes."""
    protocol: str | None = None
    """Protocol that NCCL takes."""
    least_s: float | None = None
    """The shortest that was measured."""
    wrong: int | None = None
    """Elements of results that were wrong."""
    predicted_s: float | None = None
    """With --execute, the time that the simulator predicts."""
    error: float | None = None
    """The prediction over the measured time, less one."""
    is_fitted_on: bool | None = None
    """With --execute, whether constants were fitted on this size."""


class BenchDocument(Head):
    """What `syncline bench --json` prints."""

    collective: str
    """The kind of collective."""
    program: str
    """The program of nccl-tests."""
    size_means: str
    """What sizes count."""
    machine: str | None = None
    """The machine that is predicted; none with `--execute`."""
    gpus: str | None = None
    """The GPUs that take part."""
    ranks: int
    """How many ranks there are."""
    nodes: int | None = None
    """On how many servers."""
    algorithm: str | None = None
    """The algorithm that was asked for."""
    software: Software | None = None
    """Whose constants the prediction uses."""
    host: str | None = None
    """With `--execute`, where the collective was carried out."""
    transport: str | None = None
    """With `--execute`, what carries messages."""
    constants: HostConstants | None = None
    """With `--execute`, constants that were fitted."""
    rows: list[BenchRow]
    """A row for each size."""
    errors: HostErrors | None = None
    """With `--execute`, how far predictions are off."""


class BySize(Part):
    """Something of small sizes and of large ones."""

    from_1mib: float | str | None = Field(alias="from_1MiB")
    """From 1 MiB on."""
    below_1mib: float | str | None = Field(alias="below_1MiB")
    """Below 1 MiB."""


class CalibratedSoftware(Part):
    """Constants before and after the fit; seconds, shares and factors."""

    start: str
    """The class whose constants the fit began with."""
    constants: dict[str, float]
    """The fitted constants."""
    start_constants: dict[str, float]
    """Those that it began with."""
    described_by: BySize
    """What describes times: the model, or a straight line."""


class AlphaBeta(Part):
    """A straight line through the table."""

    alpha_s: float
    """Time of a collective of no size."""
    beta_bytes_per_s: float | None
    """Bytes per second beyond that."""


class Residual(Part):
    """A size: measured, fitted, and what is between them as a share."""

    size_bytes: int
    """Size of the collective."""
    measured_s: float
    """Measured time."""
    fitted_s: float
    """Time by the fit."""
    error: float
    """Fitted time over measured time, less one."""
    alpha_beta_s: float
    """Time by a straight line."""
    alpha_beta_error: float
    """The same error of the straight line."""


class CalibrateDocument(Head):
    """What `syncline calibrate --json` prints."""

    table: str
    """The table that was read."""
    machine: str
    """The machine that it was measured on."""
    collective: str
    """The kind of collective."""
    algorithm: str
    """The algorithm that NCCL was told to take, if any."""
    gpus: int
    """GPUs that took part."""
    nodes: int
    """Servers that took part."""
    software: CalibratedSoftware
    """What was fitted."""
    alpha_beta: AlphaBeta
    """A straight line through the same sizes."""
    residuals: list[Residual]
    """How far each size is off."""
    mean_absolute_error: dict[str, BySize]
    """By what describes the table."""


class MeasureDocument(Head):
    """What `syncline measure --json` prints."""

    kernels: int
    """Kernels to be measured."""
    shapes: str | None = None
    """The file of shapes, where only these were asked for."""
    table: str | None = None
    """The table that was written."""
    device: str | None = None
    """What they were measured on."""
    torch: str | None = None
    """The version of PyTorch."""
    measured: list[dict[str, Any]]
    """Kernels with `time_s`, `spread_s` and `bytes`."""


Numbers = Number | list[Number]


class Claim(Part):
    """A published figure, or several, and what was simulated."""

    id: str
    """Name of the claim."""
    source: str
    """Paper that it is from."""
    where: str
    """Section, figure or table of the paper."""
    metric: str
    """What the figure says."""
    unit: str
    """Unit of the figures."""
    published: Numbers
    """Published figure, or figures."""
    simulated: Numbers
    """Simulated ones."""
    accept: list[Number] | list[list[Number]]
    """The least and the most that count as reproduced."""
    inside: bool
    """Whether the simulated ones are inside."""
    note: str
    """What the simulation found beside them."""


class ReproduceDocument(Head):
    """What `syncline reproduce --json` prints."""

    claims: list[Claim]
    """Published figures beside simulated ones."""
    experiments: list[dict[str, Any]] = Field(default=[])
    """With `--experiments`, tables of what was varied behind claims."""
    confirmed_unfolded: list[dict[str, Any]] = Field(default=[])
    """With all claims: points that were simulated folded and unfolded."""


class Finding(Part):
    """What is wrong with a schedule, or could be; further fields say where."""

    line: int | None
    """The line of the file."""


class VerifyDocument(Head):
    """What `syncline verify --json` prints."""

    file: str
    """The file that was read."""
    format: str
    """Its format."""
    name: str
    """The name of the schedule."""
    collective: str
    """The kind of collective."""
    in_place: bool | None
    """Whether results stand where the data was."""
    root: int | None
    """The rank of the root."""
    buffering: str | dict[str, int]
    """What a connection holds."""
    verified: bool
    """Whether the schedule is correct."""
    errors: list[Finding]
    """What is wrong with it."""
    errors_omitted: int
    """Errors that are not listed."""
    flaws: list[Finding]
    """What is not wrong, but does not suit the runtime."""
    flaws_omitted: int
    """Flaws that are not listed."""
    counts: dict[str, Number] | None
    """Of ranks, steps, messages and so on; none of a schedule that cannot be carried out."""


class ExportDocument(Head):
    """What `syncline export --json` prints."""

    collective: str
    """The kind of collective."""
    root: int | None
    """The rank of the root."""
    ranks: int
    """Ranks of the plan."""
    topology: str
    """The topology that the plan is for."""
    algorithm: str
    """The algorithm that was written down."""
    file: str | None
    """The file that was written."""
    format: str
    """Its format: `syncline-plan`, `msccl-xml` or `mscclpp-json`."""
    plan: Any = None
    """Of the first, the plan (`syncline schema plan`)."""
    xml: str | None = None
    """Of `msccl-xml`, the text of the schedule."""
    text: str | None = None
    """Of `mscclpp-json`, the text of the execution plan."""


class ExportTraceDocument(Head):
    """What `syncline export-trace --json` prints."""

    format: str
    """The format of the traces."""
    name: str
    """The name of the experiment."""
    npus: int
    """NPUs that have traces."""
    folder: str
    """Where they were written."""
    files: list[str]
    """The files."""


class Difference(Part):
    """Where a foreign workload means something else than here."""

    what: str
    """What has another meaning here."""
    there: str
    """What it means in the other program."""
    here: str
    """What it means here."""


class Replay(Part):
    """The recorded time of an NPU, and what a replay takes: the same nodes, with communication as recorded."""

    npu: int
    """The NPU."""
    steps: int | None
    """Iterations that the record is of; null where the trace does not tell them apart."""
    time_s: Number
    """From the first to the last of the recorded events that are taken."""
    iteration_time_s: Number
    """The mean time of an iteration: `time_s` where the trace does not tell them apart."""
    communication_s: Number
    """Time in which some communication is under way."""
    exposed_comm_s: Number
    """Time in which some communication is under way and nothing computes."""
    exposed_comm_share: Number | None
    """That in relation to `time_s`."""
    replayed_time_s: Number | None
    """What a replay takes; null where the trace does not say how long communication took, or cannot be simulated."""
    replayed_iteration_time_s: Number | None
    """The same, of an iteration."""
    difference: Number | None
    """How far the replay is from the record, in relation to that. Above 2 % it is warned of."""


class Record(Replay):
    """The recorded time of a job, which is that of its slowest NPU."""

    npus: list[Replay]
    """Those of all NPUs that have one."""


class ImportDocument(Head):
    """What `syncline import --json` prints; some formats say more."""

    format: str
    """The format that was read."""
    name: str
    """The name of the experiment."""
    files: dict[str, str]
    """The files that were written, by what they are."""
    differences: list[Difference]
    """What has another meaning here."""
    record: Record | None
    """What was recorded; null for what is no record, or says nothing of time."""
    npus: int | None = None
    """NPUs of the traces."""
    nodes: int | None = None
    """Nodes of the graph."""
    operators: int | None = None
    """Operators of the module."""
    parameters: int | None = None
    """Parameters of the module."""
    forward_flops: int | None = None
    """Operations of its forward pass."""
    classes: list[dict[str, Value]] | None = None
    """Classes of NPUs that do the same."""
    families: list[dict[str, Value]] | None = None
    """Families of communicators."""


class ReportDocument(Part):
    """What `syncline report --json` prints: what the page is about."""

    schema_version: Annotated[int, Field(ge=1)]
    """The version of the form of the document."""
    version: str | None
    """The version of Syncline that wrote the results."""
    status: Status | None
    """Whether all results are there."""
    name: str | None
    """The name of the experiment, sweep or search."""
    of: str
    """What the report is of."""
    variants: list[str] | None = None
    """The variants of a run."""
    rows: int | None = None
    """The rows of a table."""
    report: str
    """The file."""


class Listed(Part):
    """Something that has a name."""

    name: str
    """Its name."""
    says: str
    """What it is."""


class Listing(Part):
    """What there is of a kind."""

    kind: str
    """The kind of things."""
    given_as: str
    """Where such a name is given."""
    entries: list[Listed]
    """What there is."""


class ListDocument(Head):
    """What `syncline list --json` prints."""

    lists: list[Listing]
    """A list for each kind."""


class InitDocument(Head):
    """What `syncline init --json` prints."""

    files: dict[str, str]
    """What was written, by what it is."""


class CompletionDocument(Head):
    """What `syncline completion --json` prints."""

    shell: str
    """The shell."""
    script: str
    """The script for it."""
    file: str
    """Where the shell looks for it."""


class ProblemDocument(Part):
    """One thing that is wrong with an input."""

    file: str
    """The file, or `command line`."""
    line: int | None
    """The line of the file."""
    field: str
    """The path of the field."""
    value: str | None
    """What stands there."""
    message: str
    """What is wrong with it."""
    accepted: str | None
    """What would be accepted."""


class ErrorsDocument(Part):
    """What every command prints on standard error with `--json`, and nothing else, where its input is wrong."""

    schema_version: Annotated[int, Field(ge=1)]
    """The version of the form of the document."""
    version: str
    """The version of Syncline that has made it."""
    errors: Annotated[list[ProblemDocument], Field(min_length=1)]
    """What is wrong with the input, the first of it where it is much."""
    omitted: int | None = None
    """How many more things are wrong."""
