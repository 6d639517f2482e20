"""The engine. One simulation per call, one thread per simulation, the interpreter lock released."""

from typing import Literal, Self, TypedDict, final, type_check_only

__all__ = [
    "Cancellation",
    "CancelledError",
    "InternalError",
    "Monitor",
    "Prepared",
    "SimulationError",
    "SpecError",
    "asked",
    "attempt",
    "check",
    "demands",
    "describe",
    "export",
    "export_schedule",
    "listing",
    "packing",
    "run",
    "sources",
    "times",
    "verify",
    "version",
]

class SpecError(ValueError):
    """The specification is not a legal simulation: a JSON list of refusals (`crates/core/src/refusal.rs`)."""

class SimulationError(RuntimeError):
    """The simulation could not be finished; the message says who waits for what."""

class CancelledError(RuntimeError):
    """The simulation was ended before it was finished."""

class InternalError(RuntimeError):
    """A defect of the engine."""

@final
class Cancellation:
    """Ends any number of simulations, from any thread."""

    def cancel(self) -> None:
        """Ends all simulations whose monitors know of this, now and from now on."""

    @property
    def cancelled(self) -> bool:
        """Whether it has been called."""

@final
class Monitor:
    """What other threads see of a simulation under way, and how they end it (`crates/system/src/monitor.rs`)."""

    def __new__(cls, cancellation: Cancellation | None = None) -> Self:
        """A monitor of a simulation, which `cancellation` ends along with others."""

    def cancel(self) -> None:
        """Ends the simulation."""

    @property
    def cancelled(self) -> bool:
        """Whether the simulation is no longer wanted."""

    @property
    def time_ps(self) -> int:
        """Simulated time at the last look, in picoseconds; it begins anew where a run simulates more than once."""

    @property
    def events(self) -> int:
        """Events at the last look, over all that was simulated."""

@type_check_only
class RunResult(TypedDict):
    """What `run` returns."""

    summary: str
    tables: dict[
        str, dict[str, tuple[Literal["int", "optional int", "float", "text", "data"], bytes | tuple[bytes, bytes]]]
    ]

def run(spec_json: str, monitor: Monitor | None = None) -> RunResult:
    """Runs the simulation that `spec_json` describes (the format of `crates/system/src/spec.rs`). `monitor` sees how
    far it is, and may end it: then [`CancelledError`] is raised.

    `summary` is a JSON text. A column of a table is `("int", bytes)` or `("float", bytes)` with
    little-endian 64-bit values, `("optional int", (bytes, known))` with a bit for each value that is known, or
    `("text", (ends, bytes))` with the texts one after the other and their boundaries as 64-bit numbers; `"data"` is the
    same of bytes that are no text.
    """

def check(spec_json: str) -> str:
    """What `run` would do (`Preview` in `crates/system/src/preview.rs`) as a JSON text, without running anything.

    Raises [`SpecError`] if `run` would.
    """

@final
class Prepared:
    """A simulation that has been set up: `check`, `attempt` and `run` without setting it up again."""

    def __new__(cls, spec_json: str) -> Self:
        """Raises [`SpecError`] if `run` would."""

    def preview(self) -> str:
        """As [`check`]."""

    def attempt(self, most_ps: int, most_work: int, monitor: Monitor | None = None) -> str:
        """As [`attempt`]."""

    def run(self, monitor: Monitor | None = None) -> RunResult:
        """As [`run`]."""

def asked(spec_json: str) -> str:
    """Which collectives the simulation asks of whom (`Asked` in `crates/system/src/asked.rs`), as a JSON list. Raises
    [`SpecError`] if the text describes no run.
    """

def listing(spec_json: str) -> str:
    """The graph of the simulation, written out: what every class of NPUs does, node by node (`Listing` in
    `crates/system/src/listing.rs`), as JSON. Raises [`SpecError`] if the text describes no run.
    """

def export(spec_json: str) -> str:
    """The plan of the spec's collective as JSON (`crates/collective/src/plan_file/form.rs`). Raises [`SpecError`] if
    `run` would, or if it cannot be written down.
    """

def export_schedule(spec_json: str, instances: int) -> str:
    """The same with all its steps written out, so many times side by side, in the format of
    `crates/collective/src/schedule/form.rs`. Raises [`SpecError`] as well for what MSCCL XML cannot hold.
    """

def attempt(spec_json: str, most_ps: int, most_work: int, monitor: Monitor | None = None) -> str:
    """How the simulation ended (`Attempt` in `crates/system/src/attempt.rs`) as a JSON text: complete, or given up
    after so many picoseconds of simulated time or so much work. Raises the errors of `run`.
    """

def verify(request_json: str) -> str:
    """Verifies a schedule (the format of `crates/collective/src/schedule/form.rs`) and returns a report as JSON.

    The request has `root` (or null), `buffering` ("eager", "rendezvous" or {"slots": K}), and `schedule`, or `plan` (in
    the format of `crates/collective/src/plan_file/form.rs`).
    Raises [`SpecError`] for what is no schedule, or cannot be verified.
    """

def packing(request_json: str) -> str:
    """Answers a question about the rates of a network and the trees that reach them, in JSON (the formats of
    `crates/packing/src/request.rs`). Raises [`SpecError`] for what is no question.
    """

def demands(request_json: str) -> str:
    """What operators ask of an NPU, as a JSON list (the formats of `crates/workload/src/described/request.rs`). Raises
    [`SpecError`] for what is no operator.
    """

def times(request_json: str) -> str:
    """What kernels take on an NPU, in JSON (`crates/system/src/compute.rs`): for `compute` (a `ComputeSpec`) and
    `kernels` (as `demands` has them), a list of `time_ps`, `moved_bytes` and `basis`: `model`, `measured`,
    `interpolated` or `outside`. Raises [`SpecError`] for what is no question.
    """

def describe() -> str:
    """What the engine says of itself (`Facts` in `crates/system/src/describe.rs`) as a JSON text: names, algorithms,
    tables with their columns, fields of the summary, constants. `syncline.facts` reads it.
    """

def version() -> str:
    """The version of the engine."""

def sources() -> int:
    """The fingerprint of the sources that the engine is built from (`syncline.binding`)."""
