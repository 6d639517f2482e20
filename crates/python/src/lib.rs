//! The binding of the engine to Python, and nothing else: one JSON text in, a JSON text and columns
//! out. A column of numbers crosses as little-endian bytes, which Python wraps without a copy.
//!
//! The interpreter lock is released while the simulation runs, so that threads simulate side by side. A panic, which is a
//! defect of the engine, does not cross into Python: it is raised as `InternalError`, with the place where it happened.

use pyo3::create_exception;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::cell::RefCell;
use std::iter;
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::sync::{Arc, LazyLock};
use syncline_core::Refusal;
use syncline_system::{KnownGraphs, Limits, Results, RunError, Spec, Table, Values};

create_exception!(_core, SpecError, PyValueError, "The specification is not a legal simulation.");
create_exception!(_core, SimulationError, PyRuntimeError, "The simulation could not be finished.");
create_exception!(_core, CancelledError, PyRuntimeError, "The simulation was ended before it was finished.");
create_exception!(_core, InternalError, PyRuntimeError, "A defect of the engine.");

/// The version of the engine.
#[pyfunction]
fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// The fingerprint of the sources that the engine is built from.
#[pyfunction]
fn sources() -> PyResult<u32> {
    Ok(env!("SYNCLINE_SOURCES").parse()?)
}

/// Ends any number of simulations.
#[pyclass(frozen, module = "syncline.core._core")]
struct Cancellation(Arc<syncline_system::Cancellation>);

#[pymethods]
impl Cancellation {
    /// One that has not been called.
    #[new]
    fn new() -> Cancellation {
        Cancellation(Arc::default())
    }

    /// Ends all simulations whose monitors know of this, now and from now on.
    fn cancel(&self) {
        self.0.cancel();
    }

    /// Whether it has been called.
    #[getter]
    fn cancelled(&self) -> bool {
        self.0.is_cancelled()
    }
}

/// What other threads see of a simulation under way, and how they end it.
#[pyclass(frozen, module = "syncline.core._core")]
struct Monitor(Arc<syncline_system::Monitor>);

#[pymethods]
impl Monitor {
    /// A monitor of a simulation, which `cancellation` ends along with others.
    #[new]
    #[pyo3(signature = (cancellation=None))]
    fn new(cancellation: Option<&Cancellation>) -> Monitor {
        let shared = cancellation.map(|cancellation| syncline_system::Monitor::sharing(cancellation.0.clone()));
        Monitor(Arc::new(shared.unwrap_or_default()))
    }

    /// Ends the simulation.
    fn cancel(&self) {
        self.0.cancel();
    }

    /// Whether the simulation is no longer wanted.
    #[getter]
    fn cancelled(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Simulated time at the last look, in picoseconds.
    #[getter]
    fn time_ps(&self) -> u64 {
        self.0.time_ps()
    }

    /// Events at the last look, over all that was simulated.
    #[getter]
    fn events(&self) -> u64 {
        self.0.events()
    }
}

/// The monitor that was given, or one that nobody else knows of.
fn monitor(given: Option<&Monitor>) -> Arc<syncline_system::Monitor> {
    given.map(|monitor| monitor.0.clone()).unwrap_or_default()
}

/// Descriptions come one after the other that differ in how collectives are carried out on one machine.
static GRAPHS: LazyLock<Arc<KnownGraphs>> = LazyLock::new(Arc::default);

/// Reads the description of a run.
fn read(spec_json: &str) -> Result<Spec, RunError> {
    Spec::read_on(&GRAPHS, spec_json)
}

/// Runs the simulation that the JSON text describes.
#[pyfunction]
#[pyo3(signature = (spec_json, monitor=None))]
fn run<'py>(py: Python<'py>, spec_json: &str, monitor: Option<&Monitor>) -> PyResult<Bound<'py, PyDict>> {
    let monitor = self::monitor(monitor);
    let results = guarded(py, || syncline_system::run_observed(&read(spec_json)?, &monitor))?.map_err(raised)?;
    returned(py, &results)
}

/// Raises what `run` would raise before its first event; else says in JSON what it would do.
#[pyfunction]
fn check(py: Python<'_>, spec_json: &str) -> PyResult<String> {
    let preview = guarded(py, || syncline_system::check_spec(&read(spec_json)?))?.map_err(raised)?;
    serde_json::to_string(&preview).map_err(|e| PyRuntimeError::new_err(e.to_string()))
}

/// Runs the simulation that the JSON text describes until it has taken more simulated time or work than it may, and says
/// in JSON how it ended.
#[pyfunction]
#[pyo3(signature = (spec_json, most_ps, most_work, monitor=None))]
fn attempt(
    py: Python<'_>,
    spec_json: &str,
    most_ps: u64,
    most_work: u64,
    monitor: Option<&Monitor>,
) -> PyResult<String> {
    let limits = Limits { time_ps: most_ps, work: most_work };
    let monitor = self::monitor(monitor);
    let attempt =
        guarded(py, || syncline_system::attempt_spec(&read(spec_json)?, limits, &monitor))?.map_err(raised)?;
    serde_json::to_string(&attempt).map_err(|e| PyRuntimeError::new_err(e.to_string()))
}

/// A simulation that has been set up: what `check`, `attempt` and then `run` do, without setting it up again.
#[pyclass(frozen, module = "syncline.core._core")]
struct Prepared(syncline_system::Prepared);

#[pymethods]
impl Prepared {
    /// Sets up the simulation that the JSON text describes. Raises what `check` raises.
    #[new]
    fn new(py: Python<'_>, spec_json: &str) -> PyResult<Prepared> {
        guarded(py, || syncline_system::Prepared::of(read(spec_json)?))?.map(Prepared).map_err(raised)
    }

    /// What it would do, in JSON.
    fn preview(&self) -> PyResult<String> {
        serde_json::to_string(self.0.preview()).map_err(|e| PyRuntimeError::new_err(e.to_string()))
    }

    /// As `attempt`.
    #[pyo3(signature = (most_ps, most_work, monitor=None))]
    fn attempt(&self, py: Python<'_>, most_ps: u64, most_work: u64, monitor: Option<&Monitor>) -> PyResult<String> {
        let limits = Limits { time_ps: most_ps, work: most_work };
        let monitor = self::monitor(monitor);
        let attempt = guarded(py, || self.0.attempt(limits, &monitor))?.map_err(raised)?;
        serde_json::to_string(&attempt).map_err(|e| PyRuntimeError::new_err(e.to_string()))
    }

    /// As `run`.
    #[pyo3(signature = (monitor=None))]
    fn run<'py>(&self, py: Python<'py>, monitor: Option<&Monitor>) -> PyResult<Bound<'py, PyDict>> {
        let monitor = self::monitor(monitor);
        let results = guarded(py, || self.0.run(&monitor))?.map_err(raised)?;
        returned(py, &results)
    }
}

/// Which collectives the simulation that the JSON text describes asks of whom, in JSON.
#[pyfunction]
fn asked(py: Python<'_>, spec_json: &str) -> PyResult<String> {
    let asked = guarded(py, || syncline_system::asked_of(&read(spec_json)?))?.map_err(raised)?;
    serde_json::to_string(&asked).map_err(|e| PyRuntimeError::new_err(e.to_string()))
}

/// The graph of the simulation that the JSON text describes, written out, in JSON.
#[pyfunction]
fn listing(py: Python<'_>, spec_json: &str) -> PyResult<String> {
    let listing = guarded(py, || syncline_system::listing(spec_json))?.map_err(raised)?;
    serde_json::to_string(&listing).map_err(|e| PyRuntimeError::new_err(e.to_string()))
}

/// The plan of the collective that the JSON text describes, in JSON.
#[pyfunction]
fn export(py: Python<'_>, spec_json: &str) -> PyResult<String> {
    let plan = guarded(py, || syncline_system::export(spec_json))?.map_err(raised)?;
    serde_json::to_string(&plan).map_err(|e| PyRuntimeError::new_err(e.to_string()))
}

/// The same as a schedule in the vocabulary of MSCCL, in JSON: all its lanes, `instances` times side by side.
#[pyfunction]
fn export_schedule(py: Python<'_>, spec_json: &str, instances: u32) -> PyResult<String> {
    let schedule = guarded(py, || syncline_system::export::schedule(spec_json, instances))?.map_err(raised)?;
    serde_json::to_string(&schedule).map_err(|e| PyRuntimeError::new_err(e.to_string()))
}

/// Verifies the schedule in a JSON text, and returns a report in JSON.
#[pyfunction]
fn verify(py: Python<'_>, request_json: &str) -> PyResult<String> {
    guarded(py, || syncline_collective::request::verify_json(request_json))?.map_err(|refusals| refused(&refusals))
}

/// Answers a question about rates and trees in a JSON text, in JSON.
#[pyfunction]
fn packing(py: Python<'_>, request_json: &str) -> PyResult<String> {
    guarded(py, || syncline_packing::request::answer(request_json))?.map_err(|refusal| refused(&[refusal]))
}

/// What operators ask of an NPU, in JSON.
#[pyfunction]
fn demands(py: Python<'_>, request_json: &str) -> PyResult<String> {
    guarded(py, || syncline_workload::described::request::answer(request_json))?.map_err(|refusal| refused(&[refusal]))
}

/// What kernels take on an NPU, in JSON.
#[pyfunction]
fn times(py: Python<'_>, request_json: &str) -> PyResult<String> {
    guarded(py, || syncline_system::times(request_json))?.map_err(|refusal| refused(&[refusal]))
}

/// What the engine says of itself, in JSON: names, algorithms, tables with their columns, fields of the summary, constants.
#[pyfunction]
fn describe() -> PyResult<String> {
    serde_json::to_string(&syncline_system::describe()).map_err(|e| PyRuntimeError::new_err(e.to_string()))
}

thread_local! {
    /// What the last panic on this thread said, and where it happened.
    static LAST_PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Keeps what a panic says for whoever catches it, instead of printing it.
fn note(panic: &PanicHookInfo<'_>) {
    let payload = panic.payload();
    let text = payload.downcast_ref::<&str>().copied().or(payload.downcast_ref::<String>().map(String::as_str));
    let said = text.unwrap_or("a panic without a message");
    let place = panic.location().map_or(String::new(), |at| format!(" ({}:{})", at.file(), at.line()));
    LAST_PANIC.set(format!("{said}{place}"));
}

/// What a computation without the interpreter lock returns, or what it panicked with.
fn guarded<T: Send>(py: Python<'_>, compute: impl FnOnce() -> T + Send) -> PyResult<T> {
    // Whatever a panic leaves half done is dropped with it.
    let caught = py.detach(|| panic::catch_unwind(AssertUnwindSafe(compute)).map_err(|_| LAST_PANIC.take()));
    caught.map_err(InternalError::new_err)
}

fn raised(error: RunError) -> PyErr {
    match error {
        RunError::Spec(refusals) => refused(&refusals),
        RunError::Simulation(message) => SimulationError::new_err(message),
        RunError::Cancelled => CancelledError::new_err(error.to_string()),
    }
}

/// An error whose message is a JSON list.
fn refused(refusals: &[Refusal]) -> PyErr {
    match serde_json::to_string(refusals) {
        Ok(list) => SpecError::new_err(list),
        Err(error) => PyRuntimeError::new_err(error.to_string()),
    }
}

fn returned<'py>(py: Python<'py>, results: &Results) -> PyResult<Bound<'py, PyDict>> {
    let summary = serde_json::to_string(&results.summary).map_err(|e| PyRuntimeError::new_err(e.to_string()))?;
    let tables = PyDict::new(py);
    for table in &results.tables {
        tables.set_item(table.name, columns(py, table)?)?;
    }
    let dict = PyDict::new(py);
    dict.set_item("summary", summary)?;
    dict.set_item("tables", tables)?;
    Ok(dict)
}

fn columns<'py>(py: Python<'py>, table: &Table) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (column, values) in &table.columns {
        let name = column.name;
        match values {
            Values::Int(values) => dict.set_item(name, ("int", bytes(py, values, |v| v.to_le_bytes())?))?,
            Values::OptionalInt(values) => {
                let known = PyBytes::new(py, &validity(values));
                let numbers = bytes(py, values, |v| v.unwrap_or(0).to_le_bytes())?;
                dict.set_item(name, ("optional int", (numbers, known)))?;
            }
            Values::Float(values) => dict.set_item(name, ("float", bytes(py, values, |v| v.to_le_bytes())?))?,
            Values::Text(values) => {
                let ends = bytes(py, &ends(values.iter().map(String::len)), |v| v.to_le_bytes())?;
                dict.set_item(name, ("text", (ends, PyBytes::new(py, values.concat().as_bytes()))))?;
            }
            Values::Data(values) => {
                let ends = bytes(py, &ends(values.iter().map(Vec::len)), |v| v.to_le_bytes())?;
                dict.set_item(name, ("data", (ends, PyBytes::new(py, &values.concat()))))?;
            }
        }
    }
    Ok(dict)
}

fn bytes<'py, T: Copy>(py: Python<'py>, values: &[T], encode: fn(T) -> [u8; 8]) -> PyResult<Bound<'py, PyBytes>> {
    PyBytes::new_with(py, values.len() * 8, |buffer| {
        for (slot, &value) in buffer.chunks_exact_mut(8).zip(values) {
            slot.copy_from_slice(&encode(value));
        }
        Ok(())
    })
}

/// Which values there are, a bit each, the least significant first, as Arrow has it.
fn validity(values: &[Option<i64>]) -> Vec<u8> {
    let byte = |eight: &[Option<i64>]| eight.iter().rev().fold(0, |bits, v| bits << 1 | u8::from(v.is_some()));
    values.chunks(8).map(byte).collect()
}

/// Where values of such lengths begin and end that stand one behind the other, as Arrow has it: one number more than there are
/// values.
fn ends(lengths: impl Iterator<Item = usize>) -> Vec<i64> {
    let ends = lengths.scan(0, |end, len| {
        *end += len as i64;
        Some(*end)
    });
    iter::once(0).chain(ends).collect()
}

/// The engine.
#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(run, module)?)?;
    module.add_function(wrap_pyfunction!(check, module)?)?;
    module.add_class::<Prepared>()?;
    module.add_class::<Cancellation>()?;
    module.add_class::<Monitor>()?;
    module.add_function(wrap_pyfunction!(asked, module)?)?;
    module.add_function(wrap_pyfunction!(attempt, module)?)?;
    module.add_function(wrap_pyfunction!(listing, module)?)?;
    module.add_function(wrap_pyfunction!(export, module)?)?;
    module.add_function(wrap_pyfunction!(export_schedule, module)?)?;
    module.add_function(wrap_pyfunction!(verify, module)?)?;
    module.add_function(wrap_pyfunction!(packing, module)?)?;
    module.add_function(wrap_pyfunction!(demands, module)?)?;
    module.add_function(wrap_pyfunction!(times, module)?)?;
    module.add_function(wrap_pyfunction!(describe, module)?)?;
    module.add_function(wrap_pyfunction!(version, module)?)?;
    module.add_function(wrap_pyfunction!(sources, module)?)?;
    panic::set_hook(Box::new(note));
    module.add("CancelledError", module.py().get_type::<CancelledError>())?;
    module.add("InternalError", module.py().get_type::<InternalError>())?;
    module.add("SpecError", module.py().get_type::<SpecError>())?;
    module.add("SimulationError", module.py().get_type::<SimulationError>())?;
    Ok(())
}
