"""Reads a figure file: the sweeps and runs that it shows, and its panels.

name: ace-fig9a
title: ACE with other amounts of SRAM and FSMs
source: Rashidi et al., ISCA 2021, Fig. 9a
sweeps: [ace/design-space]
panels:
  - kind: heat                              # bars, stacked, lines, heat, scatter
    title: Performance relative to 4 MiB and 16 FSMs
    x: endpoint.fsms                        # columns of the sweep's table, with or without unit
    series: endpoint.sram
    y: iteration_time_s
    relative_to: {endpoint.sram: 4MiB, endpoint.fsms: 16}
    speedup: true                           # the other's time over this one's
    mean: true                              # over whatever else varies
    published:
      - {x: 20, series: 8MiB, value: 1.06}
  - kind: timeline
    title: ResNet-50 with ACE
    run: ace/resnet50
    variant: ACE
    columns: {compute: NPU compute, links: network links}
  - kind: layers
    title: Exposed communication
    run: ace/resnet50
    variants: [BaselineCompOpt, ACE]
    y: exposed_s                            # or a list, which is stacked, of one variant

Rows may also come from a closed form, for which nothing is simulated:

closed_forms:
  - model: all-reduce-steps
    set: {size: 16MB, shape: [4, 4], links: 4, link_rate: 25GB/s, ...}
    cases: {as given: {}, faster links: {link_rate: 75GB/s}}        # the variants of these rows, and what each sets
    axes: {cores: [1, 2, 4, 8]}
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

from syncline.base import document
from syncline.base.document import Mapping, Node
from syncline.base.errors import Problem
from syncline.sections.experiment import NAME_PATTERN

LARGEST: Final = 1e30
"""Numbers of a figure are smaller; beyond, axes have no ticks."""
PIXELS_PER_INCH: Final = 160
PAPER: Final = {"column": 3.3, "page": 7.0}
"""Inches of a figure that is as wide as a column of a paper, and as both of its columns."""


def _legible(text: str) -> str:
    """Text that can be drawn: without control characters other than the end of a line."""
    if not text.replace("\n", " ").isprintable():
        raise PydanticCustomError("illegible", "this holds a character that cannot be drawn")
    return text


Number = Annotated[int | float, Field(ge=-LARGEST, le=LARGEST)]
Cell = bool | Number | str
"""What a column of a table holds; quantities may be written with their unit."""

Label = Annotated[str, AfterValidator(_legible)]
Text = Annotated[Label, Field(min_length=1)]
Name = Annotated[str, Field(pattern=NAME_PATTERN)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Published(_Part):
    """A published value of a panel."""

    value: Number
    """In the unit that the panel shows."""
    x: Cell | None = None
    """Where it belongs; every x if left out, which draws a line."""
    series: Cell | None = None
    """The bar of a group, or the line, that it belongs to."""
    label: Label = ""
    """What it is called in legends and tables."""


class Panel(_Part):
    """A chart of the rows of the sweeps."""

    kind: Literal["bars", "stacked", "lines", "heat", "scatter"]
    """How rows are drawn."""
    title: Text
    """What stands above the panel."""
    where: dict[str, Cell | list[Cell]] = {}
    """Only rows with these values."""
    x: Text
    """The column of the horizontal axis; its unit may be left out."""
    y: Text | Annotated[list[Text], Field(min_length=1)]
    """A column, or those that are stacked."""
    series: Text | None = None
    """The column that tells bars of one group, lines or rows of cells apart; of a scatter, one more in `each`."""
    each: list[Text] = []
    """Columns that tell the points of a scatter apart."""
    relative_to: dict[str, Cell] = {}
    """Values are relative to those of the row that differs in these columns only."""
    speedup: bool = False
    """Whether the relative value is the other's over this one's: of times, the speed-up."""
    unit: str = ""
    """The unit of y; what suits the values if left out."""
    mean: bool = False
    """Whether the mean is shown where several rows have the same x and series; in a scatter, the same `each`."""
    spread: bool = False
    """Whether bars lead from the least to the most where several rows have the same x and series."""
    log: bool = False
    """Whether x is logarithmic."""
    log_y: bool = False
    """Whether y is logarithmic."""
    pareto: bool = False
    """Whether points of a scatter that no other beats are marked; which of x and y is better with less, and which with
    more, follows from what they are: of times, energies, areas, powers, bytes, losses and hardware that the sweep
    varies (fields of `endpoint` and `npu`) less, of whatever is per second, bandwidths, utilisations, efficiencies and
    speed-ups more."""
    x_better: Literal["less", "more"] | None = None
    """Whether less or more of x is better, for `pareto`, where that does not follow from what it is."""
    y_better: Literal["less", "more"] | None = None
    """The same of y, as it is shown."""
    x_label: Label = ""
    """The name of the horizontal axis; that of the column if left out."""
    y_label: Label = ""
    """The name of the vertical axis; that of the column if left out."""
    published: list[Published] = []
    """Published values, which are drawn beside those that are simulated."""

    @property
    def parts(self) -> list[str]:
        """The columns whose values are shown."""
        return [self.y] if isinstance(self.y, str) else self.y


class Timeline(_Part):
    """Busy shares of a run over time."""

    kind: Literal["timeline"]
    """Says that this panel is a time line."""
    title: Text
    """What stands above the panel."""
    run: Text
    """An experiment: a study or a path."""
    variant: Text
    """The variant of the experiment that is shown."""
    columns: Annotated[dict[str, Text], Field(min_length=1)]
    """Columns of the run's table of windows and what to call them."""
    points: Annotated[int, Field(ge=10, le=5000)] = 200
    """Windows are averaged to so many points, whatever the length of the run; a run with fewer windows shows these."""


class Layers(_Part):
    """What each layer of a run computes, and what of its communication is exposed, over all iterations."""

    kind: Literal["layers"]
    """Says that this panel has a group of bars for each layer."""
    title: Text
    """What stands above the panel."""
    run: Text
    """An experiment: a study or a path."""
    variants: Annotated[list[Text], Field(min_length=1)]
    """The variants of the experiment, a bar of each group for each."""
    y: Text | Annotated[list[Text], Field(min_length=1)] = "exposed_s"
    """A column of the run's layers, or those that are stacked."""
    unit: str = ""
    """The unit of y; what suits the values if left out."""
    y_label: Label = ""
    """The name of the vertical axis; that of the column if left out."""
    published: list[Published] = []
    """Those of a layer have its name for x, and the variant for series."""

    def as_panel(self) -> Panel:
        """The chart of rows that have a layer each."""
        return Panel(
            kind="bars" if isinstance(self.y, str) else "stacked",
            title=self.title,
            x="layer",
            y=self.y,
            series="variant" if len(self.variants) > 1 else None,
            unit=self.unit,
            y_label=self.y_label,
            published=self.published,
        )


AnyPanel = Annotated[Panel | Timeline | Layers, Field(discriminator="kind")]
KINDS: Final = "bars, stacked, lines, heat, scatter, timeline, layers"


class ClosedForm(_Part):
    """Rows that are computed by a formula."""

    model: Text
    """The name of the formula."""
    cases: Annotated[dict[Text, dict[Text, Any]], Field(min_length=1)]
    """The rows' variants, and the parameters that each sets."""
    set: dict[Text, Any] = {}
    """Parameters of every case."""
    axes: dict[Text, Annotated[list[Any], Field(min_length=1)]] = {}
    """Parameters that vary, every value with every other."""


class Figure(_Part):
    """A figure file."""

    name: Name
    """Name of the figure, and of the files that are written."""
    title: Text
    """What stands above all panels."""
    source: Label = ""
    """Where the published values are from."""
    description: str = ""
    """A text for readers."""
    sweeps: list[Text] = []
    """Files of sweeps, relative to this one, whose rows are drawn."""
    closed_forms: list[ClosedForm] = []
    """Formulas whose rows are drawn as well."""
    paper: Literal["", "column", "page"] = ""
    """As wide as a column (3.3 inches) or a page (7 inches) of a paper, without a title, and with legends below."""
    columns: Annotated[int, Field(ge=1, le=6)] = 3
    """Panels side by side."""
    width: Annotated[float | int, Field(ge=1, le=20)] = 3.8
    """Inches of a panel."""
    height: Annotated[float | int, Field(ge=1, le=20)] = 2.7
    """Inches of a panel."""
    panels: Annotated[list[AnyPanel], Field(min_length=1, max_length=64)]
    """What is drawn, from left to right and from top to bottom."""


@dataclass(frozen=True, slots=True)
class FigureFile:
    """A figure, and where it was read."""

    figure: Figure
    label: str
    folder: Path
    root: Mapping

    def problem(self, path: Sequence[str | int], message: str, accepted: str | None = None) -> Problem:
        """A problem with the value at a path."""
        node = node_at(self.root, path)
        return node.origin.problem(message, document.plain(node), accepted)


ONLY_FOR: Final = {
    "each": ("scatter",),
    "pareto": ("scatter",),
    "x_better": ("scatter",),
    "y_better": ("scatter",),
    "spread": ("bars",),
    "log": ("lines", "scatter"),
    "log_y": ("bars", "lines", "scatter"),
}
"""Keys of a panel, and the kinds that they are for: parts of a stack have no lengths on a logarithmic axis."""
UNITS: Final = {
    "": 1.0,
    "%": 0.01,
    "s": 1.0,
    "ms": 1e-3,
    "us": 1e-6,
    "ns": 1e-9,
    "GB/s": 1e9,
    "MB": 1e6,
    "MiB": 1024.0**2,
    "mm2": 1e6,
    "W": 1.0,
    "J": 1.0,
    "mJ": 1e-3,
    "uJ": 1e-6,
}
"""Units of panels, in those of the columns."""


def node_at(root: Node, path: Sequence[str | int]) -> Node:
    """The node of a figure file at a path, or the innermost one above it."""
    node = root
    for key in path:
        if isinstance(node, Mapping) and key in node.entries:
            node = node.entries[str(key)]
        elif isinstance(node, document.Sequence) and isinstance(key, int):
            node = node.items[key]
    return node
