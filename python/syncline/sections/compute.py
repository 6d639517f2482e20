"""The compute model of an NPU: how the time of kernels is found (docs/compute.md)."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, PlainValidator, WithJsonSchema

from syncline.base import quantities
from syncline.base.quantities import QuantityError
from syncline.base.section import Section
from syncline.fabric.fields import Accepted, Frequency, Share, Size, TimeOrZero, Unread, refused, said_elsewhere
from syncline.fabric.gpus import BY_WIDTH, Precision

if TYPE_CHECKING:
    from syncline.sections.kernel_table import KernelTable

SPARSITY_ACCEPTED: Final = (
    "N:M, such as 2:4, if N of M neighbours are kept, or the percentage that is kept, such as 25%"
)
TABLE_ACCEPTED: Final = "the path of a CSV file that syncline measure has written, relative to the experiment file"
STRUCTURE: Final = re.compile(r"([1-9][0-9]{0,2}):([1-9][0-9]{0,2})", re.ASCII)


def _sparsity(value: object) -> str:
    structure = STRUCTURE.fullmatch(value.strip()) if isinstance(value, str) else None
    if structure is not None and int(structure[1]) <= int(structure[2]):
        return structure[0]
    try:
        return quantities.format_share(quantities.share(value))
    except QuantityError:
        raise refused("this is no sparsity", SPARSITY_ACCEPTED) from None


def _table(value: object) -> Any:
    if value is None or hasattr(value, "engine"):
        return value
    if isinstance(value, Unread):
        raise said_elsewhere()
    raise refused("this names no file", TABLE_ACCEPTED)


SIZES: Final = [
    [rows, columns]
    for rows in (64, 128, 256)
    for columns in range(32, 257, 32)
    if rows * columns <= 128 * 256  # whose sums the registers of an SM hold
]
Side = Annotated[int, Field(ge=1, le=4096)]


class Tiling(Section):
    """How matrix products are cut into tiles, and how fast these are. The defaults were fitted to a few products in
    BF16 on an NVIDIA H200 (docs/compute.md)."""

    sizes: Annotated[
        list[Annotated[list[Side], Field(min_length=2, max_length=2)]], Field(min_length=1, max_length=64)
    ] = Field(default=SIZES)
    """Rows and columns of tiles, either way up; each product has the size that is best for it."""
    splits: Annotated[list[Annotated[int, Field(ge=1, le=256)]], Field(min_length=1, max_length=16)] = Field(
        default=[1, 2, 3, 4, 6, 8, 12, 16]
    )
    """Into how many parts sums may be split, so that more SMs have something to do."""
    sustained: Share = Fraction(84, 100)
    """The fraction of its peak rate that an SM would reach with endlessly large tiles."""
    reuse: Annotated[float, Field(ge=0, le=10_000, allow_inf_nan=False)] = 11.0
    """Multiplications for each element of operands that a tile takes in at which half of that is reached: tiles of r
    rows and c columns do r c / (r + c)."""
    fill: Annotated[int, Field(ge=0, le=1_000_000)] = 160
    """Terms that an SM could have worked on while a tile begins and ends."""
    sustained_memory: Share = Fraction(80, 100)
    """The fraction of the memory bandwidth that kernels reach."""
    split_overhead: TimeOrZero = 3_800_000
    """What it costs to split sums, beside reading and writing the parts: a second kernel."""
    misaligned: Share = Fraction(13, 100)
    """What is left of the rate where rows of operands do not begin at multiples of 16 bytes."""


class Compute(Section):
    """How the time of kernels is found (docs/compute.md)."""

    kind: Literal["gpu", "roofline", "systolic", "tiles", "table"] = "roofline"
    """`gpu`: kernels of the GPU's libraries, by what they do, their shape and their size, at the clock that its limit
    of power leaves; it is the default of GPUs of which constants are known. `roofline`: peak rate or memory
    bandwidth, whichever is slower; `systolic`: arrays of processing elements in place of the SMs, whose time for a
    matrix product depends on its shape, or memory bandwidth; `tiles`: matrix products in tiles and waves over the
    SMs, or memory bandwidth; `table`: measured times."""
    rows: Annotated[int, Field(ge=1, le=65_536)] = 256
    """Rows of the array."""
    columns: Annotated[int, Field(ge=1, le=65_536)] = 256
    """Columns of the array."""
    dataflow: Literal["output-stationary", "weight-stationary", "input-stationary"] = "output-stationary"
    """What stays in the array while the rest streams through."""
    clock: Frequency | None = None
    """Clock of the array; that of the NPU if not given. SMs set aside for communication slow it in proportion."""
    arrays: Annotated[int, Field(ge=1, le=1024)] = 1
    """Arrays of this size, among which each product is divided."""
    sram_inputs: Size | None = None
    """Memory of an array for inputs, in two halves; what does not fit is fetched again. If none of the three memories
    is given, every operand is moved once and nothing waits for it but for bandwidth; if one is, the others keep
    everything."""
    sram_weights: Size | None = None
    """Memory of an array for weights."""
    sram_outputs: Size | None = None
    """Memory of an array for outputs and their partial sums."""
    tile: Annotated[int, Field(ge=1, le=65_536)] | None = None
    """Results along each side of the square tiles that matrix products are computed in, each of which reads its
    operands from main memory; if not given, every operand is read once."""
    tiles: Tiling = Tiling()
    """Of tiles and waves, the tiles."""
    table: Annotated[
        Any,
        PlainValidator(_table),
        PlainSerializer(lambda table: None if table is None else table.file, return_type=str | None),
        Accepted(TABLE_ACCEPTED),
        WithJsonSchema({"type": ["string", "null"], "minLength": 1, "maxLength": 4096}),
    ] = None
    """The table of measurements, relative to the experiment file."""
    sparsity: Annotated[str, BeforeValidator(_sparsity), Accepted(SPARSITY_ACCEPTED)] | None = None
    """How sparse the second factor of every matrix product is: `2:4` if two of four neighbours are kept, or the
    percentage of elements that are; zeros are neither stored nor multiplied. Dense if not given."""
    launch: TimeOrZero = 0
    """What passes before each kernel begins."""

    @property
    def depends_on_type(self) -> bool:
        """Whether the data type of elements decides how fast products are."""
        return self.kind != "systolic"

    @property
    def measured(self) -> KernelTable | None:
        """The table, read."""
        table: KernelTable | None = self.table
        return table


def type_of(precision: Precision | None, element: int) -> Precision:
    """The data type of products, where only the bytes of their elements may be known."""
    return precision or BY_WIDTH.get(element, "fp32")
