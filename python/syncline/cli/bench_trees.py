"""`syncline bench --algorithm packed-trees`: the table that nccl-tests would print of a library that packs trees.

The software model knows NCCL alone, so these rows are simulated: the plan of trees for each size on the links of the
machine (`flow`), as copies and kernels in streams (`streams`), whose constants were fitted on Blink's measurements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from syncline.cli import single
from syncline.schema.packed import PACKED

if TYPE_CHECKING:
    from syncline.results import Document
    from syncline.schema.load import Variant

BACKEND, ENDPOINT = "flow", "streams"


def table(kind: str, machine: str, gpus: str | None, sizes: Sequence[int], seed: int) -> tuple[Document, str]:
    """The document with its rows, and the table as text. Raises [`InputError`] where trees do not carry this out."""
    from syncline import engine, progress_display, results, runner
    from syncline.errors import SimulationFailedError
    from syncline.fabric import allocation
    from syncline.schema.workloads import CollectiveWorkload
    from syncline.software import printing
    from syncline.software.model import Prediction

    first = _variant(kind, machine, gpus, sizes[0], seed)
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
    outcomes = runner.run_all(variants, watch=progress_display.shown())
    outcomes.raise_if_refused()
    for name, message in outcomes.failures:
        raise SimulationFailedError(f"{name}: {message}")
    if outcomes.interrupted:
        raise KeyboardInterrupt
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
    from syncline.errors import command_line

    found: list[Any] = []
    for flag, value in (("--software", software), ("--small-size-time", small_size_time)):
        if value is not None:
            message = f"{PACKED} is simulated, and the software model knows NCCL alone"
            found += command_line(flag, value, message, f"none with --algorithm {PACKED}").problems
    return found


def _variant(kind: str, machine: str, gpus: str | None, size: int, seed: int) -> Variant:
    flags = single.Flags(
        kind=kind,
        size=f"{size}B",
        machine=machine,
        gpus=gpus,
        endpoint=ENDPOINT,
        algorithm=PACKED,
        backend=BACKEND,
    )
    study, _ = single.load(flags, [], ["workload.element=4B"])
    return study.seeded(seed).variants[0]
