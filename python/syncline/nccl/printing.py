"""Predicted times in the columns of nccl-tests, with the interval that small sizes are expected in.

What nccl-tests does not print stands behind a `#`, so that everything that reads its tables reads these: the
algorithm and protocol with the largest part in the time, and for sizes below 1 MiB the times between which nine of
ten systems of the class lie. From there up, what the class is worth is in docs/validation.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from syncline.nccl import networks
from syncline.nccl.model import Model, Prediction
from syncline.nccl.sizes import ELEMENT_BYTES
from syncline.nccl.wire import bus_factor

UNCERTAIN_BELOW: Final = 2**20
"""Sizes below have an interval."""
PROGRAMS: Final = {
    "all-reduce": "all_reduce_perf",
    "reduce-scatter": "reduce_scatter_perf",
    "all-gather": "all_gather_perf",
    "broadcast": "broadcast_perf",
    "reduce": "reduce_perf",
    "all-to-all": "alltoall_perf",
    "gather": "gather_perf",
    "scatter": "scatter_perf",
    "sendrecv": "sendrecv_perf",
}
"""The program of nccl-tests that measures it."""
NOT_CHECKED: Final = "N/A"
"""What nccl-tests prints for errors when it does not look for any."""
_OPERATIONS: Final = frozenset({"all-reduce", "reduce-scatter", "reduce"})
_ROOTED: Final = frozenset({"broadcast", "reduce", "gather", "scatter"})
_DIVIDED: Final = frozenset({"reduce-scatter", "all-gather", "all-to-all", "gather", "scatter"})


def table(model: Model, predictions: Sequence[Prediction]) -> str:
    """The table of the model, as text."""
    platform = model.platform
    nodes = f", {platform.gpus_per_node} on each of {platform.nodes} nodes" if platform.nodes > 1 else ""
    about = [f"{PROGRAMS[model.kind]} on {platform}: {ranks(platform.gpus)}{nodes}; predicted, not measured"]
    software = f"software: {model.software.name}"
    about.append(f"{software}{', set to the small-size time' if model.anchored else ''}; fitted on")
    about += [f"  {fitted.table}" for fitted in model.software.fitted_on] or ["  no table"]
    if platform.nodes > 1 and not model.calibrated:
        network = networks.of(platform)
        about.append(f"network: {network.name}; {'fitted on' if network.is_fitted else 'assumed figures, not fitted'}")
        about += [f"  {table}" for table in network.fitted_on]
    return text(about, rows(model, predictions))


def text(about: Sequence[str], rows: Sequence[dict[str, Any]]) -> str:
    """Rows as a table, under lines that say what it is of."""
    lines = [*(f"# {line}" for line in about), *_columns()]
    for row in rows:
        interval = ""
        if row["time_low_s"] is not None:
            interval = f"{_us(row['time_low_s']):>8} to {_us(row['time_high_s']):>8}"
        rates = (row["algorithm_bandwidth_bytes_per_s"] / 1e9, row["bus_bandwidth_bytes_per_s"] / 1e9)
        columns = f"{row['size_bytes']:>12}  {row['count']:>12}  {row['type']:>8}  {row['redop']:>6}  {row['root']:>6}"
        measured = f"{_us(row['time_s']):>8}  {rates[0]:>7.2f}  {rates[1]:>7.2f}  {NOT_CHECKED:>6}"
        way = f"{row['algorithm']} {row['protocol']}"
        lines.append(f"{columns}  {measured}  # {way:<16}  {interval}".rstrip())
    return "\n".join(lines) + "\n"


def rows(model: Model, predictions: Sequence[Prediction]) -> list[dict[str, Any]]:
    """The same for JSON: times in seconds, sizes in bytes, rates in bytes per second."""
    return rows_of(model.kind, model.platform.gpus, predictions)


def rows_of(kind: str, gpus: int, predictions: Sequence[Prediction], *, intervals: bool = True) -> list[dict[str, Any]]:
    """The rows of a collective of so many GPUs; `intervals` if nine of ten systems are known to be in some."""
    factor = float(bus_factor(kind, gpus))
    return [
        {
            "size_bytes": p.size,
            "count": count(kind, gpus, p.size),
            "type": "float",
            "redop": "sum" if kind in _OPERATIONS else "none",
            "root": 0 if kind in _ROOTED else -1,
            "time_s": p.time,
            "time_low_s": p.low if intervals and _is_uncertain(p) else None,
            "time_high_s": p.high if intervals and _is_uncertain(p) else None,
            "algorithm_bandwidth_bytes_per_s": p.algorithm_bandwidth,
            "bus_bandwidth_bytes_per_s": p.algorithm_bandwidth * factor,
            "algorithm": p.algorithm,
            "protocol": p.protocol,
        }
        for p in predictions
    ]


def _is_uncertain(prediction: Prediction) -> bool:
    """Whether a size has an interval: small ones, and all over a network that no table was there to fit."""
    return prediction.assumed or prediction.size < UNCERTAIN_BELOW


def ranks(gpus: int) -> str:
    """So many GPUs in words."""
    return "1 rank" if gpus == 1 else f"{gpus} ranks"


def _columns() -> Iterator[str]:
    yield "#"
    names = f"#{'size':>11}  {'count':>12}  {'type':>8}  {'redop':>6}  {'root':>6}"
    yield f"{names}  {'time':>8}  {'algbw':>7}  {'busbw':>7}  {'#wrong':>6}  # {'algorithm':<16}  nine of ten systems"
    units = f"#{'(B)':>11}  {'(elements)':>12}  {'':>8}  {'':>6}  {'':>6}"
    yield f"{units}  {'(us)':>8}  {'(GB/s)':>7}  {'(GB/s)':>7}  {'':>6}  # {'and protocol':<16}  (us)"


def count(kind: str, gpus: int, size: int) -> int:
    """The elements that nccl-tests prints: of the vector or, where GPUs have shares of it, of a share."""
    elements = size // ELEMENT_BYTES
    return elements // gpus if kind in _DIVIDED else elements


def _us(seconds: float) -> str:
    """Microseconds with four or more digits, as nccl-tests prints them."""
    value = seconds * 1e6
    for limit, digits in ((100, 2), (10_000, 1)):
        if value < limit:
            return f"{value:.{digits}f}"
    return f"{value:.0f}"
