"""GPU products: the PCI device ids and names by which a topology tells them, and their links.

Names are those that `nvidia-smi` prints. Ids are those of the PCI ID database (pci-ids.ucw.cz, 2026-07) and, from the
A100 on, of the list of supported GPUs of NVIDIA's open kernel modules. NVLinks are those of NVIDIA's data sheets: an
SXM module has them on its board; PCIe cards have them only where a bridge joins two or four of them, and superchips
only in a rack. PCIe is of the third generation up to the V100, the fourth with the A100, the fifth from the H100 on and
the sixth with the B300; all have 16 lanes. `socket` is what joins the CPUs of NVIDIA's own machine with the GPU (DGX-1,
DGX A100, DGX H100), which is assumed where a topology does not say what CPUs it has.

`gpu` names the product's figures in `fabric.gpus`. Products whose SMs, clock, memory or memory bandwidth differ from
all that are listed there have none: of them, nothing follows for kernels.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from syncline.base import quantities
from syncline.fabric import hardware
from syncline.fabric.gpus import GPUS, Gpu
from syncline.fabric.hardware import OTHER_SOCKET, QPI, UPI_2, XGMI, Socket

NVIDIA: Final = 0x10DE
SXM, PCIE, NVL, DGX_STATION, SUPERCHIP = "SXM", "PCIe", "NVL", "DGXS", ""


@dataclass(frozen=True, slots=True)
class Product:
    """A GPU as it is sold."""

    model: str
    form: str
    memory: int
    """GB, as its name says it."""
    ids: tuple[int, ...]
    """PCI device ids, of the vendor NVIDIA."""
    sm: int
    """Compute capability, times ten."""
    nvlinks: int
    """At most."""
    pcie_gt: int
    """GT/s per lane."""
    socket: Socket
    gpu: str | None = None
    """Its figures, by name (`fabric.gpus`)."""

    @property
    def title(self) -> str:
        """Such as `H100 SXM 80 GB`."""
        return " ".join(part for part in (self.model, self.form, f"{self.memory} GB") if part)

    @property
    def nvlink_rate(self) -> int:
        """Bytes per second of one NVLink and direction."""
        return hardware.nvlink_rate(self.sm)

    @property
    def always_has_nvlinks(self) -> bool:
        """Whether it has NVLinks in every machine, not only where a bridge or a rack joins several."""
        return self.nvlinks > 0 and self.form in (SXM, DGX_STATION)


def _products() -> Iterable[Product]:
    for rows, sm, pcie_gt, socket in (
        (_PASCAL, 60, 8, QPI),
        (_VOLTA, 70, 8, QPI),
        (_AMPERE, 80, 16, XGMI),
        (_HOPPER, 90, 32, UPI_2),
        (_GRACE_HOPPER, 90, 32, OTHER_SOCKET),
        (_BLACKWELL, 100, 32, UPI_2),
        (_GRACE_BLACKWELL, 100, 32, OTHER_SOCKET),
        (_BLACKWELL_ULTRA, 103, 64, UPI_2),
        (_GRACE_BLACKWELL_ULTRA, 103, 64, OTHER_SOCKET),
    ):
        for model, form, memory, ids, nvlinks, gpu in rows:
            yield Product(model, form, memory, ids, sm, nvlinks, pcie_gt, socket, gpu)


_Row = tuple[str, str, int, tuple[int, ...], int, str | None]
_PASCAL: Final[tuple[_Row, ...]] = (
    ("P100", SXM, 16, (0x15F9,), 4, "p100"),
    ("P100", PCIE, 16, (0x15F8,), 0, None),
    ("P100", PCIE, 12, (0x15F7,), 0, None),
    ("P100", DGX_STATION, 16, (0x15FC,), 4, None),
)
_VOLTA: Final[tuple[_Row, ...]] = (
    ("V100", SXM, 16, (0x1DB1, 0x1DF5), 6, "v100-16gb"),
    ("V100", SXM, 32, (0x1DB5, 0x1DB8), 6, "v100-32gb"),
    ("V100", PCIE, 16, (0x1DB3, 0x1DB4), 0, None),
    ("V100", PCIE, 32, (0x1DB6,), 0, None),
    ("V100S", PCIE, 32, (0x1DF6,), 0, None),
    ("V100", DGX_STATION, 16, (0x1DB2,), 6, None),
    ("V100", DGX_STATION, 32, (0x1DB7,), 6, None),
)
_AMPERE: Final[tuple[_Row, ...]] = (
    ("A100", SXM, 40, (0x20B0,), 12, "a100-40gb"),
    ("A100", SXM, 80, (0x20B2,), 12, "a100-80gb"),
    ("A100", SXM, 64, (0x20B3,), 12, None),
    ("A100", PCIE, 40, (0x20B1, 0x20F1), 12, "a100-pcie-40gb"),
    ("A100", PCIE, 80, (0x20B5,), 12, "a100-pcie-80gb"),
    ("A800", SXM, 40, (0x20BD,), 8, "a100-40gb"),
    ("A800", SXM, 80, (0x20F3,), 8, "a100-80gb"),
    ("A800", PCIE, 40, (0x20F6,), 8, None),
    ("A800", PCIE, 80, (0x20F5,), 8, None),
    ("A30", PCIE, 24, (0x20B7,), 4, None),
)
_HOPPER: Final[tuple[_Row, ...]] = (
    ("H100", SXM, 80, (0x2330,), 18, "h100"),
    ("H100", SXM, 64, (0x2337,), 18, None),
    ("H100", SXM, 94, (0x2339,), 18, None),
    ("H100", SXM, 96, (0x2336, 0x2338, 0x233D), 18, None),
    ("H100", PCIE, 80, (0x2331,), 12, "h100-pcie"),
    ("H100", NVL, 94, (0x2321,), 12, "h100-nvl"),
    ("H800", SXM, 80, (0x2324,), 8, None),
    ("H800", PCIE, 80, (0x2322,), 8, None),
    ("H800", NVL, 94, (0x233A,), 8, None),
    ("H20", SXM, 96, (0x2329,), 18, None),
    ("H20", SXM, 141, (0x232C,), 18, None),
    ("H200", SXM, 141, (0x2335,), 18, "h200"),
    ("H200", NVL, 141, (0x233B,), 18, None),
)
_GRACE_HOPPER: Final[tuple[_Row, ...]] = (
    ("GH200", SUPERCHIP, 96, (0x2342,), 18, None),
    ("GH200", SUPERCHIP, 144, (0x2348,), 18, None),
)
_BLACKWELL: Final[tuple[_Row, ...]] = (
    ("B200", SXM, 180, (0x2901,), 18, "b200"),
    ("B200", SXM, 168, (0x2909,), 18, None),
)
_GRACE_BLACKWELL: Final[tuple[_Row, ...]] = (("GB200", SUPERCHIP, 186, (0x2941,), 18, "gb200"),)
_BLACKWELL_ULTRA: Final[tuple[_Row, ...]] = (("B300", SXM, 288, (0x3182,), 18, None),)
_GRACE_BLACKWELL_ULTRA: Final[tuple[_Row, ...]] = (("GB300", SUPERCHIP, 288, (0x31C2, 0x31C3), 18, None),)

PRODUCTS: Final = tuple(_products())
MOST_NVLINKS: Final = max(product.nvlinks for product in PRODUCTS)
_BY_ID: Final = {device: product for product in PRODUCTS for device in product.ids}
_MODELS: Final = "|".join(sorted({product.model for product in PRODUCTS}, key=len, reverse=True))
_NAME: Final = re.compile(
    rf"(\b[DH]GX[- ])?\b({_MODELS})(?![A-Za-z0-9])([- ][\w-]{{1,12}}(?: [\w-]{{1,12}}){{0,3}})?", re.ASCII
)
_LISTED: Final = re.compile(r"^GPU \d{1,6}: (\S[^(\n]{0,80}?) \(UUID", re.ASCII | re.MULTILINE)
_FORMS: Final = (
    (re.compile(r"\bNVL\b"), NVL),
    (re.compile(r"\bPCI-?E\b", re.IGNORECASE), PCIE),
    (re.compile(r"\bDGXS\b"), DGX_STATION),
    (re.compile(r"\bSXM|\bHBM3", re.ASCII), SXM),
)
"""Words behind the model that say what form it has; of Hopper, only SXM modules say that they have HBM3."""
_MEMORY: Final = re.compile(r"\b([0-9]{2,3}) ?GB?\b", re.ASCII)
_TOTAL: Final = re.compile(r"/ *([0-9]{4,6}) ?MiB", re.ASCII)
"""The memory in the table that `nvidia-smi` prints, such as `0MiB / 81559MiB`."""


@dataclass(frozen=True, slots=True)
class Hardware:
    """What follows from a machine about its GPUs."""

    gpu: Gpu | None
    because: str
    """What says which GPU it is; or why it does not follow, as a sentence about the topology."""
    candidates: tuple[str, ...] = ()
    """GPUs that it may be, or that are of the same model, where it does not follow."""
    stated: bool = False
    """Whether rates of links follow from a GPU that was named beside the topology (`npu.gpu`)."""
    leaves_pcie_open: bool = False
    """Whether it does not say the rate of some PCIe links."""


@dataclass(frozen=True, slots=True)
class Stated:
    """What is stated beside a topology file."""

    gpu: str | None = None
    """The GPU, by name: `npu.gpu`."""
    pcie_rate: int | None = None
    """Bytes per second on the wire of the PCIe links whose rate the file leaves open: `topology.pcie_rate`."""


@dataclass(frozen=True, slots=True)
class Pcie:
    """What PCIe links have whose rate a topology leaves open."""

    per_lane: Fraction
    """GT/s."""
    rate: int | None
    """Bytes per second on the wire, if they are stated beside the topology."""
    source: str
    """Such as `that of the H100`; nothing for the default."""

    @classmethod
    def of(cls, stated: Stated, products: Collection[Product], seen: Collection[Fraction] = ()) -> Pcie:
        """As stated, as the fastest of the machine's links that are known (GT/s), as that of the GPU, or else gen 3."""
        of_gpu = common(product.pcie_gt for product in products)
        if seen:
            return cls(max(seen), stated.pcie_rate, "that of other links")
        if of_gpu is not None:
            return cls(Fraction(of_gpu), stated.pcie_rate, f"that of the {next(iter(products)).model}")
        return cls(hardware.DEFAULT_PCIE_GT, stated.pcie_rate, "")

    def link(self, per_lane: Fraction | None, width: int | None) -> tuple[int, Fraction]:
        """Bytes per second on the wire and the share of payload of a link, of which one or both may be unknown."""
        if self.rate is not None and (per_lane is None or width is None):
            return self.rate, hardware.PCIE_EFFICIENCY
        return hardware.pcie_rate(per_lane or self.per_lane, width or hardware.DEFAULT_PCIE_WIDTH)

    def __str__(self) -> str:
        if self.rate is not None:
            return f"{quantities.RATE.format(self.rate)} on the wire (topology.pcie_rate)"
        name = f"{hardware.pcie_name(self.per_lane)} with {hardware.DEFAULT_PCIE_WIDTH} lanes"
        return f"{name}, {self.source}" if self.source else name


def by_id(device: int) -> Product | None:
    """The product with a PCI device id of NVIDIA."""
    return _BY_ID.get(device)


def like(gpu: str) -> Product:
    """The first product with the figures of a GPU."""
    return next(product for product in PRODUCTS if product.gpu == gpu)


def named(text: str) -> tuple[Product, ...]:
    """The products that the names in a text may stand for: of one model, or else none."""
    names = [(match[1], match[2], match[3] or "") for match in _NAME.finditer(text)]
    models = {model for _, model, _ in names}
    if len(models) != 1:
        return ()
    possible = tuple(product for product in PRODUCTS if product.model in models)
    each = [_of_name(possible, "SXM" if maker else "", rest) for maker, _, rest in dict.fromkeys(names)]
    common = tuple(product for product in possible if all(product in found for found in each))
    found = common or tuple(product for product in possible if any(product in found for found in each))
    totals = {int(total) for total in _TOTAL.findall(text)}
    return narrowed(found, lambda p: all(0.9 * p.memory <= total / 1024 <= p.memory for total in totals))


def listed(text: str) -> list[str]:
    """The different names of GPUs in the lines of `nvidia-smi -L`, known or not."""
    return list(dict.fromkeys(match[1] for match in _LISTED.finditer(text)))


def _of_name(possible: tuple[Product, ...], maker: str, rest: str) -> tuple[Product, ...]:
    form = next((form for pattern, form in _FORMS if pattern.search(rest)), maker)
    memory = {int(size) for size in _MEMORY.findall(rest)}
    found = narrowed(possible, lambda p: not form or p.form == form)
    return narrowed(found, lambda p: not memory or p.memory in memory)


def narrowed(products: tuple[Product, ...], keep: Callable[[Product], bool]) -> tuple[Product, ...]:
    """The products to which something applies; all of them, if it applies to none."""
    return tuple(product for product in products if keep(product)) or products


def figures(products: Collection[Product]) -> Gpu | None:
    """The GPU whose figures all products have; nothing, if there is none. Of products that differ in memory alone,
    those without figures, which few machines have, do not count.
    """
    names = {product.gpu for product in products}
    if len({(product.model, product.form) for product in products}) == 1:
        names.discard(None)
    name = names.pop() if len(names) == 1 else None
    return None if name is None else GPUS[name]


def candidates(products: Iterable[Product]) -> tuple[str, ...]:
    """The GPUs whose figures products of the same models have, in the order of `fabric.gpus`."""
    models = {product.model for product in products}
    names = {product.gpu for product in PRODUCTS if product.model in models}
    return tuple(name for name in GPUS if name in names)


def common(values: Iterable[int]) -> int | None:
    """What all have in common; nothing, if they differ or there are none."""
    found = set(values)
    return found.pop() if len(found) == 1 else None


def undecided(products: Sequence[Product], names: str) -> str:
    """Why the figures of a GPU do not follow from products that a topology `names` (`it names`)."""
    if len(products) == 1:
        return f"{names} {_with_article(products[0].title)}, whose figures are not known"
    return f"{names} {_with_article(products[0].model)}, which may be one of {titles(products)}"


def without_nvlinks(products: Sequence[Product], where: str) -> str:
    """The warning about GPUs with NVLinks of which there are none in a file."""
    links = max(product.nvlinks for product in products)
    return (
        f"{_with_article(products[0].model)} has {links} NVLinks, but there are none in {where}: "
        "here the GPUs reach each other over PCIe only, which is far slower"
    )


def _with_article(model: str) -> str:
    """`an H100`, `a V100`: as the letters are spoken."""
    return f"{'an' if model[0] in 'AH' else 'a'} {model}"


def titles(products: Sequence[Product]) -> str:
    """Products for messages."""
    return ", ".join(dict.fromkeys(product.title for product in products))
