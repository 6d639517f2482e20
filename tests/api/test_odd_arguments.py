"""Whatever a program gives a function: it works, or [`syncline.InputError`] says what is wrong."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

import syncline
from support.experiments import SMALL_GPT
from support.results import apart_from_cost
from support.topologies import CLOUD_XML
from syncline.nccl import measurements

EXPERIMENT: Final[dict[str, Any]] = {
    "name": "tiny",
    "topology": "Ring(2)",
    "workload": {"collective": "all-reduce", "size": "1KiB"},
    "collective": {"algorithm": "ring"},
    "network": "analytical",
    "endpoint": "ideal",
}
MODEL: Final[dict[str, Any]] = {
    **SMALL_GPT,
    "collective": {"chunks": 1, "algorithm": "ring"},
    "network": "analytical",
    "endpoint": "ideal",
}
SEARCH: Final[dict[str, Any]] = MODEL | {"search": {"tensor": [1], "pipeline": [1], "simulate": 1}}
SWEEP: Final[dict[str, Any]] = {"name": "chunks", "base": EXPERIMENT, "axes": {"collective.chunk": ["1KiB"]}}
FIGURE: Final[dict[str, Any]] = {
    "name": "mine",
    "title": "Time",
    "closed_forms": [
        {"model": "insertion-delay", "cases": {"link": {"link_rate": "100Gb/s"}}, "axes": {"size": ["8MB"]}}
    ],
    "panels": [{"kind": "bars", "title": "Link", "x": "size", "series": "variant", "y": "time_s"}],
}
ODD: Final[tuple[Any, ...]] = (
    *(None, "", b"x", 3, 10**40, 3.5, math.nan, True, Path("x"), object(), range(2), id),
    *([], [object()], [None], (1, "x"), {"x": object()}, {3: 4}),
)


def cancelled() -> syncline.Cancellation:
    """What ends what is costly as soon as its arguments are read."""
    token = syncline.Cancellation()
    token.cancel()
    return token


BASES: Final[dict[str, Callable[[], dict[str, Any]]]] = {
    "bench": lambda: {"kind": "all-reduce", "machine": "dgx-a100", "sizes": "1KiB"},
    "calibrate": lambda: {
        "table": measurements.FOLDER / "a100-8-oci.csv",
        "machine": "dgx-a100",
        "cancel": cancelled(),
    },
    "check": lambda: {"source": EXPERIMENT},
    "collective": lambda: {"kind": "all-reduce", "size": 1000, "topology": "Ring(2)", "algorithm": "ring"},
    "detect": lambda: {"nccl_file": "nccl.xml", "sys_root": "nowhere", "nvidia_smi": "./none"},
    "diff": lambda: {"a": EXPERIMENT, "b": "kept"},
    "explain": lambda: {"source": "kept", "what_if": False},
    "export": lambda: {"kind": "all-reduce", "algorithm": "ring", "ranks": 2},
    "export_trace": lambda: {"source": EXPERIMENT, "out": "traces"},
    "figure": lambda: {"source": FIGURE, "threads": 1, "cancel": cancelled()},
    "fit": lambda: {"source": MODEL, "cancel": cancelled()},
    "import_trace": lambda: {"format": "chakra", "files": "traces/tiny", "out": "imported"},
    "load": lambda: {"source": EXPERIMENT},
    "measure": lambda: {"models": "gpt2", "shapes": "shapes.json"},
    "read": lambda: {"directory": "kept"},
    "reproduce": lambda: {"claims": "tutorial-torus-volume", "threads": 1, "cancel": cancelled()},
    "run": lambda: {"source": EXPERIMENT},
    "search": lambda: {"source": SEARCH, "threads": 1, "cancel": cancelled()},
    "sweep": lambda: {"source": SWEEP, "threads": 1, "cancel": cancelled()},
    "trees": lambda: {"machine": "dgx1v", "gpus": [0, 1]},
    "trees_sweep": lambda: {"machine": "dgx1v", "gpus": [0, 1], "threads": 1},
    "verify": lambda: {"plan": "plan.json"},
}
"""By function, arguments with which it works, or is cancelled, in no time."""
METHODS: Final[dict[str, tuple[Callable[[], Any], dict[str, Any]]]] = {
    "Run.save": (lambda: syncline.run(EXPERIMENT).save, {"directory": "saved"}),
    "Run.report": (lambda: syncline.read("kept").report, {"baseline": "tiny"}),
    "Export.save": (lambda: syncline.export("all-reduce", algorithm="ring", ranks=2).save, {"path": "plan.json"}),
    "Measurement.save": (lambda: syncline.measure("gpt2", shapes="shapes.json").save, {"path": "kernels.csv"}),
    "TreesSweep.save": (lambda: syncline.trees_sweep("dgx1v", gpus=[0, 1]).save, {"path": "allocations.csv"}),
}
"""By method, what makes it, and arguments."""
DOCUMENTED: Final = (syncline.InputError, syncline.SimulationFailedError, syncline.CancelledError)


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("nccl.xml").write_text(CLOUD_XML)
    syncline.run(EXPERIMENT, out="kept")
    syncline.export_trace(EXPERIMENT, out="traces")
    syncline.export("all-reduce", algorithm="ring", ranks=2, out="plan.json")


def undocumented(call: Callable[..., object], known: dict[str, Any], name: str) -> list[str]:
    """The odd values of an argument for which a call raises something that is not documented."""
    found = []
    for value in ODD:
        try:
            call(**known | {name: value})
        except DOCUMENTED:
            continue
        except Exception as error:
            found.append(f"{name}={value!r}: {type(error).__name__}: {error}")
    return found


def test_every_function_has_a_base() -> None:
    functions = {name for name in syncline.__all__ if inspect.isfunction(getattr(syncline, name))}
    assert functions == set(BASES)


@pytest.mark.parametrize("function", BASES)
def test_what_is_odd_is_an_input_error(function: str) -> None:
    call = getattr(syncline, function)
    with suppress(syncline.CancelledError):
        call(**BASES[function]())
    parameters = inspect.signature(call).parameters
    assert [said for name in parameters for said in undocumented(call, BASES[function](), name)] == []


@pytest.mark.parametrize("method", METHODS)
def test_what_is_odd_is_an_input_error_of_methods(method: str) -> None:
    make, known = METHODS[method]
    assert [said for name in known for said in undocumented(make(), known, name)] == []


@pytest.mark.parametrize(
    ("function", "known", "said"),
    [
        ("bench", {"kind": None}, "arguments: kind: this is not text"),
        ("bench", {"sizes": 3.5}, "arguments: sizes: these are no sizes"),
        ("bench", {"gpus": 3}, "arguments: gpus: these are no GPUs"),
        ("bench", {"execute": 1}, "arguments: execute: this is neither true nor false"),
        ("read", {"directory": 3}, "arguments: directory: a run cannot be given as int"),
        ("run", {"out": 3, "seed": -1, "errors": "drop"}, "arguments: seed: this is out of range"),
        ("run", {"out": 3, "seed": -1, "errors": "drop"}, "arguments: out: a directory cannot be given as int"),
        ("explain", {"system": 3, "seed": -1}, "arguments: system: these are no names"),
        ("diff", {"system": [3]}, "arguments: system: these are no names"),
        ("detect", {"gpus": 3}, "arguments: gpus: these are no GPUs"),
        ("detect", {"sys_root": None}, "arguments: sys_root: no folder is given"),
        ("collective", {"groups": 3}, "groups: "),
    ],
)
def test_what_is_odd_is_said(function: str, known: dict[str, Any], said: str) -> None:
    with pytest.raises(syncline.InputError) as caught:
        getattr(syncline, function)(**BASES[function]() | known)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("function", "argument"),
    [
        *(("export_trace", "out"), ("run", "out"), ("export", "out"), ("sweep", "out"), ("search", "out")),
        *(
            ("figure", "out"),
            ("trees_sweep", "out"),
            ("import_trace", "out"),
            ("measure", "out"),
            ("measure", "shapes"),
        ),
        *(("reproduce", "keep"), ("read", "directory"), ("verify", "plan"), ("load", "source"), ("sweep", "source")),
        *(("import_trace", "files"), ("calibrate", "table"), ("bench", "software"), ("trees", "topology_file")),
        *(("export_trace", "overlay"), ("detect", "sys_root")),
    ],
)
def test_an_empty_path_is_empty(function: str, argument: str) -> None:
    before = sorted(Path().rglob("*"))
    with pytest.raises(syncline.InputError, match=f"arguments: {argument}: this is empty"):
        getattr(syncline, function)(**BASES[function]() | {argument: ""})
    assert sorted(Path().rglob("*")) == before


def test_numbers_and_arrays_of_numpy_are_numbers_and_lists() -> None:
    np = pytest.importorskip("numpy")
    one, four, many = np.int64(1), np.int64(4), np.array([1024, 4096])

    def same(function: str, given: dict[str, Any], plain: dict[str, Any]) -> None:
        call = getattr(syncline, function)
        known = {key: value for key, value in BASES[function]().items() if key != "cancel"}
        assert apart_from_cost(call(**known | given).document) == apart_from_cost(call(**known | plain).document)

    ring = {"topology": "Ring(4)"}
    same(
        "collective",
        {**ring, "size": np.int64(4096), "groups": np.array([[0, 1], [2, 3]])},
        {**ring, "size": 4096, "groups": [[0, 1], [2, 3]]},
    )
    same("bench", {"sizes": many, "gpus": np.array([0, 1])}, {"sizes": [1024, 4096], "gpus": [0, 1]})
    same("bench", {"sizes": many[0]}, {"sizes": "1024B"})
    same(
        "run",
        {"seed": four, "threads": one, "memory_limit": np.int64(2**30)},
        {"seed": 4, "threads": 1, "memory_limit": 2**30},
    )
    same("export", {"ranks": four}, {"ranks": 4})
    same("export_trace", {"format": "kineto", "npus": np.array([0])}, {"format": "kineto", "npus": range(1)})
    same("trees_sweep", {"gpus": [0, 1, 2], "sizes": np.array([3])}, {"gpus": [0, 1, 2], "sizes": [3]})
    axes = [{"collective.inflight": values} for values in (np.array([1, 2]), range(1, 3), [1, 2])]
    of_array, of_range, of_list = (syncline.sweep(SWEEP | {"axes": each}, threads=1) for each in axes)
    assert apart_from_cost(of_array.document) == apart_from_cost(of_range.document) == apart_from_cost(of_list.document)
    with pytest.raises(syncline.InputError, match="arguments: seed: this is not a whole number"):
        syncline.run(EXPERIMENT, seed=np.bool_(True))


@pytest.mark.parametrize("function", ["load", "check", "run", "sweep"])
def test_a_chunk_is_text_or_bytes(function: str) -> None:
    base = {key: value for key, value in BASES[function]().items() if key != "cancel"}
    call = getattr(syncline, function)

    def said(chunk: Any) -> Any:
        found = call(**base | {"chunk": chunk})
        return found.resolved() if function == "load" else apart_from_cost(found.document)

    if function == "sweep":
        base["source"] = SWEEP | {"axes": {"collective.inflight": [1]}}
    assert said(512) == said("512B") != said("256B")
