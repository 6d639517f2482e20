"""The engine's description of what an NPU computes with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from syncline.base import quantities
from syncline.fabric.gpus import GPUS, NARROW, WIDTHS, Precision
from syncline.kernels import calibrated
from syncline.kernels.calibrated import Attention
from syncline.sections.compute import STRUCTURE, Compute, type_of

if TYPE_CHECKING:
    from syncline.sections.npu import Npu
    from syncline.sections.workloads import Training

ENDLESS: Final = 2**62
"""Bytes of a memory that keeps everything."""
ALIGNMENT: Final = 16
"""Bytes that the memory of a GPU delivers to a thread at once."""
OF_ALIGNMENT: Final = 2
"""Bytes of the elements in which the engine takes the alignment of tiles; it knows that others have another one."""
STEP: Final = 128
"""Bytes of a row of operands that a tile takes in for a step of its sums."""


class Share(NamedTuple):
    """What there is to compute with."""

    sms: int
    bandwidth: int
    """Bytes per second of memory."""
    npus: int
    """NPUs that wait for each other."""


def specification(
    npu: Npu, share: Share, training: Training, precision: Precision | None, element: int
) -> dict[str, Any]:
    """The engine's description (`ComputeSpec`) of what a share of an NPU computes with: products of linear layers in a
    narrow data type, if `precision` is one, and all else in the wide type beside it.
    """

    def of(peak: int, of_type: Precision) -> dict[str, Any]:
        return {
            "flops_per_s": peak * share.sms / npu.sms,
            "memory_bytes_per_s": float(share.bandwidth),
            "scale": training.compute_scale,
            "model": _model(npu, share, peak, of_type, training.attention_of(npu.gpu)),
            "tile": npu.compute.tile,
            "sparsity": _engine_sparsity(npu.compute.sparsity),
            "launch_ps": npu.compute.launch,
        }

    if precision is not None and precision in NARROW:
        return {**of(npu.wide_peak(precision), NARROW[precision]), "narrow": of(npu.peak, precision)}
    return of(npu.peak, type_of(precision, element))


def _engine_sparsity(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    structure = STRUCTURE.fullmatch(text)
    if structure is not None:
        return {"structured": [int(structure[1]), int(structure[2])]}
    return {"density": float(quantities.share(text))}


def _model(npu: Npu, share: Share, peak: int, precision: Precision, attention: Attention) -> dict[str, Any]:
    compute, sms = npu.compute, share.sms
    if compute.kind == "gpu" and npu.gpu is not None:
        gpu = GPUS[npu.gpu]
        use = calibrated.Use(sms, WIDTHS[precision], float(peak), attention, npu.power or gpu.power, share.npus)
        return calibrated.model(gpu, use)
    if compute.kind == "systolic":
        return {
            "kind": "systolic",
            "rows": compute.rows,
            "columns": compute.columns,
            "dataflow": compute.dataflow,
            "clock_hz": (compute.clock or npu.clock) * sms / npu.sms,
            "arrays": compute.arrays,
            "sram": _memories(compute),
        }
    if compute.kind == "tiles":
        tiles = compute.tiles
        width = WIDTHS[precision]
        return {
            "kind": "tiles",
            "tiles": list(dict.fromkeys(size for rows, columns in tiles.sizes for size in _both_ways(rows, columns))),
            "splits": tiles.splits,
            "depth": STEP // width,
            "fill": tiles.fill,
            "sms": sms,
            "sustained": float(tiles.sustained),
            "reuse": tiles.reuse,
            "sustained_memory": float(tiles.sustained_memory),
            "split_overhead_ps": tiles.split_overhead,
            "alignment": ALIGNMENT // OF_ALIGNMENT,
            "misaligned": float(tiles.misaligned),
        }
    if compute.kind == "table" and compute.measured is not None:
        aligned = {"alignment": ALIGNMENT // WIDTHS[precision]}
        whole = {"flops_per_s": float(peak), "memory_bytes_per_s": float(npu.memory_bandwidth)}
        return {"kind": "table", **compute.measured.engine(precision), **aligned, **whole}
    return {"kind": "roofline"}


def _both_ways(rows: int, columns: int) -> tuple[tuple[int, int], tuple[int, int]]:
    return (rows, columns), (columns, rows)


def _memories(compute: Compute) -> dict[str, int] | None:
    sizes = {name: getattr(compute, f"sram_{name}") for name in ("inputs", "weights", "outputs")}
    if all(size is None for size in sizes.values()):
        return None
    return {f"{name}_bytes": ENDLESS if size is None else size for name, size in sizes.items()}
