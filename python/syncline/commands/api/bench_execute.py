"""`syncline bench --execute`: the table of nccl-tests, measured between processes of this host, beside a prediction."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from syncline.base.errors import SimulationFailedError, command_line, one_of
from syncline.commands.api import bench_predicted as predicted
from syncline.nccl import printing
from syncline.nccl.wire import bus_factor
from syncline.results import entries as results
from syncline.runtime import measured
from syncline.runtime.library import RuntimeFailure
from syncline.runtime.measured import KINDS, MOST_RANKS

if TYPE_CHECKING:
    from syncline.base.errors import Problem
    from syncline.commands.api.bench_predicted import Constants, Row
    from syncline.results.entries import Document

DEFAULT_SIZES = "8B:64MiB:x4"
LEAST_SIZES = 4
"""So many sizes have two halves that say something."""


def problems(kind: str | None, ranks: int | None, sizes: Sequence[int] | None, given: Sequence[str]) -> list[Problem]:
    """What is wrong with the values of flags. `given` names flags that only a prediction for a machine has."""
    found: list[Problem] = []
    for flag in given:
        message = "collectives are carried out between processes of this host, not predicted for a machine"
        found += command_line(flag, None, message, "none with --execute").problems
    if kind is not None and kind not in KINDS:
        found += command_line("KIND", kind, "this collective is not measured", one_of(KINDS)).problems
    if ranks is not None and not 2 <= ranks <= MOST_RANKS:
        message = "one process has nobody to talk to" if ranks == 1 else "there cannot be so many processes"
        found += command_line("--ranks", str(ranks), message, f"2 to {MOST_RANKS}").problems
    if sizes is not None and len(sizes) < LEAST_SIZES:
        message = "the constants are fitted on half of the sizes, and held against the other half"
        found += command_line("--sizes", None, message, f"at least {LEAST_SIZES} sizes").problems
    return found


def table(kind: str, sizes: Sequence[int], ranks: int) -> tuple[Document, str]:
    """The document and the table. Raises [`SimulationFailedError`] where a collective fails."""
    # What is added is told apart from what is moved by a collective that adds nothing.
    kinds = [kind] if kind in {"all-gather", "broadcast", "all-to-all"} else [kind, "all-gather"]
    try:
        measurements = measured.measured(kinds, sizes, ranks)
        constants, rows = predicted.compared(kind, measurements, ranks)
    except RuntimeFailure as failure:
        raise SimulationFailedError(str(failure)) from None
    document = _document(kind, ranks, constants, rows)
    return document, _text(document)


def _document(kind: str, ranks: int, constants: Constants, rows: Sequence[Row]) -> Document:
    factor = float(bus_factor(kind, ranks))
    document = results.document([], seed=0, status="complete", warnings=_warnings(ranks, rows))
    document["fidelity"] = {"backend": "processes of this host", "folded": False, "transfer": "carried out"}
    document["collective"] = kind
    document["program"] = printing.PROGRAMS[kind]
    document["size_means"] = results.SIZE_MEANS[kind]
    document["ranks"] = ranks
    document["host"] = f"{os.cpu_count()} processors, {platform.system()} {platform.machine()}"
    document["transport"] = "TCP" if os.environ.get("SYNCLINE_TRANSPORT") == "tcp" else "shared memory"
    document["constants"] = {
        "message_s": constants.message_s,
        "bytes_per_s": 1 / constants.byte_s if constants.byte_s > 0 else None,
        "reduced_bytes_per_s": 1 / constants.reduced_byte_s if constants.reduced_byte_s > 0 else None,
    }
    document["rows"] = [
        {
            "size_bytes": row.measured.size,
            "count": printing.count(kind, ranks, row.measured.size),
            "type": "float",
            "time_s": row.measured.time_s,
            "least_s": row.measured.least_s,
            "wrong": row.measured.wrong,
            "algorithm_bandwidth_bytes_per_s": row.measured.size / row.measured.time_s,
            "bus_bandwidth_bytes_per_s": factor * row.measured.size / row.measured.time_s,
            "algorithm": row.measured.chosen.name,
            "predicted_s": row.predicted_s,
            "error": row.error,
            "is_fitted_on": row.is_fitted_on,
        }
        for row in rows
    ]
    held = [abs(row.error) for row in rows if not row.is_fitted_on]
    fitted = [abs(row.error) for row in rows if row.is_fitted_on]
    document["errors"] = {
        "held_out_mean": sum(held) / len(held),
        "held_out_most": max(held),
        "fitted_mean": sum(fitted) / len(fitted),
    }
    return document


def _warnings(ranks: int, rows: Sequence[Row]) -> list[str]:
    found = []
    wrong = sum(row.measured.wrong for row in rows)
    if wrong:
        found.append(f"{wrong} elements of results were wrong")
    cores = os.cpu_count() or 1
    if ranks > cores:
        found.append(f"{ranks} processes share {cores} processors: they wait for each other, which is not predicted")
    return found


def _text(document: Document) -> str:
    lines = [
        f"# {document['program']}: {document['ranks']} processes over {document['transport']}; measured",
        f"# on a host of {document['host']}",
        "# predicted by the simulator, whose constants were fitted on the sizes that are marked *",
        "#",
        f"#{'size':>11}  {'count':>12}  {'type':>8}  {'time':>10}  {'algbw':>7}  {'busbw':>7}  {'#wrong':>6}"
        f"  # {'predicted':>10}  {'error':>7}  algorithm",
        f"#{'(B)':>11}  {'(elements)':>12}  {'':>8}  {'(us)':>10}  {'(GB/s)':>7}  {'(GB/s)':>7}  {'':>6}"
        f"  # {'(us)':>10}",
    ]
    for row in document["rows"]:
        rates = [row[f"{name}_bandwidth_bytes_per_s"] / 1e9 for name in ("algorithm", "bus")]
        mark = "*" if row["is_fitted_on"] else " "
        lines.append(
            f"{row['size_bytes']:>12}  {row['count']:>12}  {row['type']:>8}  {row['time_s'] * 1e6:>10.1f}"
            f"  {rates[0]:>7.2f}  {rates[1]:>7.2f}  {row['wrong']:>6}"
            f"  # {row['predicted_s'] * 1e6:>10.1f}  {row['error']:>+7.1%}{mark} {row['algorithm']}"
        )
    constants, errors = document["constants"], document["errors"]
    lines.append(f"# a message takes {constants['message_s'] * 1e6:.2f} us, bytes {_rate(constants['bytes_per_s'])},")
    lines.append(f"# bytes that are added {_rate(constants['reduced_bytes_per_s'])} more")
    lines.append(
        f"# held out: {errors['held_out_mean']:.1%} off on average, {errors['held_out_most']:.1%} at most; "
        f"fitted on: {errors['fitted_mean']:.1%}"
    )
    return "\n".join(lines) + "\n"


def _rate(value: Any) -> str:
    return "no time" if value is None else f"{value / 1e9:.2f} GB/s"
