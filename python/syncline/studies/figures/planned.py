"""What can be said of panels before anything is simulated: the columns that they name, and which simulations would
stand in one place.

The table of a sweep that is not simulated has its rows, with what they vary; what comes of a simulation stands in it
as a number that is equal only where simulations are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from syncline.base.errors import InputError, Problem, did_you_mean, one_of
from syncline.core import facts
from syncline.experiment import packaged as studies
from syncline.studies import column_names, columns
from syncline.studies.figures import closed_form, values
from syncline.studies.figures.file import FigureFile, Layers, Panel, Timeline
from syncline.studies.sweeps import points, table
from syncline.studies.sweeps.file import load
from syncline.studies.sweeps.journal import Entry
from syncline.studies.sweeps.points import Simulation
from syncline.studies.sweeps.table import Table

OWN: Final = frozenset({"iteration_time_s", "total_time_s", "time_s", "algorithm_bandwidth_bytes_per_s"}) | {
    "bus_bandwidth_bytes_per_s"
}
"""What every simulation has and no two different ones are meant to share, so that one place cannot show both."""
PS: Final = facts.SUFFIXES[facts.PICOSECONDS]
MEASURED: Final = (columns.COMMON, columns.NETWORK, columns.TRANSPORT, columns.ENDPOINT, columns.BREAKDOWN)
BESIDE: Final = (columns.COST, columns.FIDELITY, (columns.WARNINGS,))


def mistakes(file: FigureFile) -> list[Problem]:
    """What is wrong with the panels of a file that is refused already, as far as its sweeps can be read."""
    found: list[list[Simulation]] = []
    try:
        for name in file.figure.sweeps:
            found.append(points.simulations(load(*studies.find_sweep(name, file.folder)))[0])
        computed = closed_form.tables(file)
    except InputError:
        return []
    return list(problems(file, found, computed))


def problems(file: FigureFile, sweeps: Iterable[Sequence[Simulation]], computed: Sequence[Table]) -> Iterator[Problem]:
    """What is wrong with the panels of a figure that shows these simulations and the tables of its closed forms."""
    swept = list(sweeps)
    for i, panel in enumerate(file.figure.panels):
        if isinstance(panel, Panel):
            if swept or computed:
                yield from _of_panel(file, i, panel, [*computed, *(_table(each, panel) for each in swept)])
        else:
            yield from _of_run(file, i, panel)


def _of_panel(file: FigureFile, place: int, panel: Panel, tables: Sequence[Table]) -> Iterator[Problem]:
    known = {"base", "variant", *(axis for table in tables for axis in table.axes)}
    known |= {measure.name for measure in columns.ROW}
    named = [name for key, names in values.named(panel).items() if key != "y" for name in names]
    look = values.of if known.issuperset(_full(named, tables)) else values.check
    try:
        look(file, place, panel, tables)
    except InputError as error:
        yield from error.problems


def _full(names: Iterable[str], tables: Sequence[Table]) -> Iterator[str]:
    """The columns of these names, with their units."""
    for name in names:
        written = [name + suffix for suffix in ("", *column_names.SUFFIXES)]
        yield next((column for column in written for table in tables if column in table.columns), name)


def _table(simulations: Sequence[Simulation], panel: Panel) -> Table:
    """The table of simulations as far as it is known before they are run."""
    wanted = [name for names in values.named(panel).values() for name in names]
    return table.of(simulations, {each.key: _entry(each, wanted) for each in simulations})


def _entry(simulation: Simulation, wanted: Iterable[str]) -> Entry:
    """What would come of a simulation."""
    if simulation.refusal is not None:
        return Entry("refused", simulation.refusal)
    own = columns.TRAINING if simulation.variant.experiment.is_training else columns.COLLECTIVE
    digits = hashlib.sha256(simulation.key.encode()).digest()[:6]
    distinct = 1 + int.from_bytes(digits) / 2**48
    measures: dict[str, Any] = {
        measure.name: _stand_in(measure, distinct) for group in (own, *MEASURED, *BESIDE) for measure in group
    }
    # Which resources and partitions there are, the engine knows.
    for name in wanted:
        for column in (name, *(name + suffix for suffix in column_names.SUFFIXES)):
            if any(column.endswith(measure.name) and column != measure.name for measure in columns.NAMED):
                measures.setdefault(column, 1.0)
    return Entry("done", None, measures, 1.0, 1)


def _stand_in(measure: columns.Measure, distinct: float) -> float | str:
    if measure.unit == facts.TEXT:
        return measure.name
    return distinct if measure.name in OWN else 1.0


def _of_run(file: FigureFile, place: int, panel: Timeline | Layers) -> Iterator[Problem]:
    """Columns that no run has."""
    if isinstance(panel, Layers):
        names = ["layer", *map(_in_seconds, facts.engine().tables["layers"].columns), "base", "variant", "status"]
        try:
            values.check(file, place, panel.as_panel(), [Table(dict.fromkeys(names, float), [], ("layer",))])
        except InputError as error:
            yield from error.problems
    else:
        known = [name for name in facts.engine().tables["windows"].columns if name not in ("window", "start_ps")]
        for name in panel.columns:
            if name not in known:
                message = f"the windows of this run have no column '{name}'{did_you_mean(name, known)}"
                yield file.problem(("panels", place, "columns"), message, one_of(known))


def _in_seconds(column: str) -> str:
    """What a column of the engine is called where times are in seconds."""
    return f"{column.removesuffix(PS)}_s" if column.endswith(PS) else column
