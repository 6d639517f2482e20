"""`syncline bench --algorithm packed-trees`: the table that nccl-tests would print of a library that packs trees.

The software model knows NCCL alone, so these rows are simulated: the plan of trees for each size on the links of the
machine (`flow`), as copies and kernels in streams (`streams`), whose constants were fitted on Blink's measurements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from syncline.base.errors import CancelledError, SimulationFailedError, command_line
from syncline.commands.api import arguments, single
from syncline.commands.api.arguments import Settings
from syncline.engine import runner
from syncline.engine import runs as engine
from syncline.fabric import allocation
from syncline.nccl import printing
from syncline.nccl.model import Prediction
from syncline.results import entries as results
from syncline.sections.packed import PACKED
from syncline.sections.workloads import CollectiveWorkload

if TYPE_CHECKING:
    from syncline.base.progress import Watch
    from syncline.core.cancelling import Cancellation
    from syncline.experiment.load import Variant
    from syncline.results.entries import Document

BACKEND, ENDPOINT = "flow", "streams"


@dataclass(frozen=True, slots=True)
class Where:
    """What is carried out, and on what."""

    kind: str
    machine: str
    gpus: str | None
    seed: int
    cancel: Cancellation | None


def table(where: Where, sizes: Sequence[int], watch: Watch | None) -> tuple[Document, str]:
    """The document with its rows, and the table as text; `watch` hears how far the simulations are. Raises
    [`InputError`] where trees do not carry this out.
    """
    kind, machine, seed = where.kind, where.machine, where.seed
    first = _variant(where, sizes[0])
    workload = first.experiment.workload
    assert isinstance(workload, CollectiveWorkload)
    variants = [
        replace(
            first,
            name=f"{size} B",
            experiment=first.experiment.model_copy(update={"workload": workload.model_copy(update={"size": size})}),
        )
        for size in sizes
    ]
    engine.preview(first)  # says what is wrong before anything runs
    outcomes = runner.run_all(variants, watch=watch)
    outcomes.raise_if_refused()
    for name, message in outcomes.failures:
        raise SimulationFailedError(f"{name}: {message}")
    if outcomes.interrupted:
        raise KeyboardInterrupt
    if outcomes.cancelled:
        raise CancelledError
    times = [result.summary["total_ps"] / engine.PS_PER_S for _, result in outcomes.results]
    predictions = [
        Prediction(size, time, time, time, PACKED, ENDPOINT) for size, time in zip(sizes, times, strict=True)
    ]
    ranks = first.experiment.ranks
    members = first.experiment.members
    document = results.document([first], seed=seed, status="complete", warnings=[])
    document["fidelity"] = {"backend": BACKEND, "folded": False, "transfer": "simulated"}
    document["collective"] = kind
    document["program"] = printing.PROGRAMS[kind]
    document["size_means"] = results.SIZE_MEANS.get(kind, "what each rank sends")
    document["machine"] = machine
    document["gpus"] = allocation.canonical(range(ranks) if members is None else members[0])
    document["ranks"] = ranks
    document["algorithm"] = PACKED
    document["software"] = None
    document["rows"] = printing.rows_of(kind, ranks, predictions, intervals=False)
    about = [
        f"{printing.PROGRAMS[kind]} on {machine}: {printing.ranks(ranks)}; simulated, not measured",
        f"{PACKED} on the backend {BACKEND} with the endpoint {ENDPOINT}",
    ]
    return document, printing.text(about, document["rows"])


def problems(software: str | None, small_size_time: str | None) -> list[Any]:
    """What is said that the software model alone knows."""
    found: list[Any] = []
    for flag, value in (("--software", software), ("--small-size-time", small_size_time)):
        if value is not None:
            message = f"{PACKED} is simulated, and the software model knows NCCL alone"
            found += command_line(flag, value, message, f"none with --algorithm {PACKED}").problems
    return found


def _variant(where: Where, size: int) -> Variant:
    asked = single.Single(
        kind=where.kind,
        size=f"{size}B",
        machine=where.machine,
        gpus=where.gpus,
        endpoint=ENDPOINT,
        algorithm=PACKED,
        backend=BACKEND,
    )
    overrides, _ = arguments.changed_fields({"workload.element": "4B"})
    settings = Settings(tuple(overrides), seed=where.seed, cancel=where.cancel)
    study, _ = single.load(asked, settings)
    return study.variants[0]
