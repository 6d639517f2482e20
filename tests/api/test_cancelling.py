"""What was started can be ended from another thread, and what looks on changes nothing."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import syncline
from syncline.commands.api import study as studies
from syncline.core import cancelling
from syncline.engine import runner
from syncline.engine import runs as engine

LONG: dict[str, Any] = {
    "name": "long",
    "topology": "Ring(4)_Ring(4)",
    "workload": {"collective": "all-reduce", "size": "64GiB"},
    "network": "packet",
    "collective": {"algorithm": "ring", "chunk": "64KiB"},
}
"""Days of simulation."""
SHORT: dict[str, Any] = {**LONG, "workload": {"collective": "all-reduce", "size": "16MiB"}}
"""Some hundred thousand events."""


def when_underway(cancel: syncline.Cancellation, seen: list[syncline.Standing]) -> Callable[[syncline.Standing], None]:
    """Cancels from another thread once a simulation has begun."""

    def hear(standing: syncline.Standing) -> None:
        seen.append(standing)
        if any(each.events > 100_000 for each in standing.underway):
            other = threading.Thread(target=cancel.cancel)
            other.start()
            other.join()

    return hear


class TestCancelled:
    def test_inside_of_a_simulation(self) -> None:
        cancel, seen = syncline.Cancellation(), list[syncline.Standing]()
        with pytest.raises(syncline.CancelledError, match="0 of 1 simulations are finished") as caught:
            syncline.run(LONG, cancel=cancel, progress=when_underway(cancel, seen))
        assert caught.value.run is not None
        assert caught.value.run.status == "partial"
        (last,) = next(standing.underway for standing in reversed(seen) if standing.underway)
        assert last.name == "long"
        assert last.simulated_time_s > 0
        assert last.expected_events is not None
        assert last.events < last.expected_events
        assert seen[-1].is_over

    def test_what_is_finished_is_kept(self, tmp_path: Path) -> None:
        sizes = {"short": "1MiB", "long": "64GiB"}
        mixed = {**LONG, "variants": [{"name": name, "workload": {"size": size}} for name, size in sizes.items()]}
        cancel, seen = syncline.Cancellation(), list[syncline.Standing]()
        with pytest.raises(syncline.CancelledError, match="1 of 2") as caught:
            syncline.run(mixed, threads=1, cancel=cancel, progress=when_long(cancel, seen), out=tmp_path / "run")
        assert caught.value.run is not None
        assert list(caught.value.run.systems) == ["short"]
        assert list(syncline.read(tmp_path / "run").systems) == ["short"]
        alone = syncline.run({**mixed, "variants": mixed["variants"][:1]})
        assert caught.value.run.systems["short"].time_s == alone.systems["short"].time_s

    @pytest.mark.parametrize("function", ["run", "check", "collective", "explain", "diff", "fit", "calibrate"])
    def test_before_it_begins(self, function: str, tmp_path: Path) -> None:
        cancel = syncline.Cancellation()
        cancel.cancel()
        cancel.cancel()
        assert cancel.cancelled
        given: Any = (LONG | {"collective": {"algorithm": "auto"}},)
        known: Any = {}
        if function == "collective":
            given, known = ("all-reduce", "64GiB"), {"topology": "Ring(16)", "backend": "packet"}
        elif function == "diff":
            given = (LONG, LONG)
        elif function == "calibrate":
            given = (measured(tmp_path), "dgx-a100")
        with pytest.raises(syncline.CancelledError):
            getattr(syncline, function)(*given, cancel=cancel, **known)

    def test_a_collective(self) -> None:
        cancel = syncline.Cancellation()
        given: Any = {"topology": "Ring(16)", "backend": "packet", "algorithm": "ring", "chunk": "64KiB"}
        with pytest.raises(syncline.CancelledError):
            syncline.collective("all-reduce", "64GiB", cancel=cancel, progress=when_underway(cancel, []), **given)

    @pytest.mark.parametrize("function", ["explain", "diff"])
    def test_what_is_explained(self, function: str) -> None:
        cancel = syncline.Cancellation()
        sources = [LONG] if function == "explain" else [SHORT, LONG]
        with pytest.raises(syncline.CancelledError, match="the run was cancelled; 0 of 1 systems are finished"):
            getattr(syncline, function)(*sources, cancel=cancel, progress=when_far(cancel))

    def test_reruns_of_what_is_explained(self) -> None:
        cancel = syncline.Cancellation()

        def hear(standing: syncline.Standing) -> None:
            if standing.total > 1 and standing.done:
                other = threading.Thread(target=cancel.cancel)
                other.start()
                other.join()

        with pytest.raises(
            syncline.CancelledError, match=r"explaining was cancelled; [1-5] of \d+ reruns are finished"
        ):
            syncline.explain(SHORT, threads=1, cancel=cancel, progress=hear)

    def test_a_directory_that_is_explained(self, tmp_path: Path) -> None:
        syncline.run(SHORT, out=tmp_path / "run")
        cancel = syncline.Cancellation()
        cancel.cancel()
        for what_if in (True, False):
            with pytest.raises(syncline.CancelledError):
                syncline.explain(tmp_path / "run", cancel=cancel, what_if=what_if)
        assert not (tmp_path / "run" / "explain.json").exists()

    def test_while_reruns_are_set_up(self, monkeypatch: pytest.MonkeyPatch) -> None:
        cancel = syncline.Cancellation()
        preview = engine.preview

        def cancelled(*given: Any, **known: Any) -> Any:
            cancel.cancel()
            return preview(*given, **known)

        monkeypatch.setattr(engine, "preview", cancelled)
        with pytest.raises(syncline.CancelledError, match="this was cancelled"):
            syncline.explain(SHORT, cancel=cancel)

    def test_a_fit_of_constants(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        from syncline.nccl import calibration, model

        cancel, times = syncline.Cancellation(), list[float]()

        def cancelled(*given: Any) -> float:
            times.append(model.time(*given))
            if len(times) == 1000:
                cancel.cancel()
            return times[-1]

        monkeypatch.setattr(calibration, "time", cancelled)
        with pytest.raises(syncline.CancelledError):
            syncline.calibrate(measured(tmp_path), "dgx-a100", cancel=cancel)
        assert len(times) < 1100

    def test_nothing_else_is_ended(self) -> None:
        one, other = syncline.Cancellation(), syncline.Cancellation()
        one.cancel()
        assert syncline.run(SHORT, cancel=other).status == "complete"
        assert not other.cancelled
        assert "called" in repr(one)
        assert not pickle.loads(pickle.dumps(one)).cancelled

    def test_is_not_anything(self) -> None:
        with pytest.raises(syncline.InputError, match=r"arguments: cancel: .*\n.*given: Event") as caught:
            syncline.run(SHORT, cancel=threading.Event(), seed=-1)  # type: ignore[arg-type]
        assert len(caught.value.problems) == 2


def when_far(cancel: syncline.Cancellation) -> Callable[[syncline.Standing], None]:
    """Cancels once a simulation has more events than the short one."""

    def hear(standing: syncline.Standing) -> None:
        if any(each.events > 2_000_000 for each in standing.underway):
            threading.Thread(target=cancel.cancel).start()

    return hear


def measured(folder: Path) -> Path:
    """A table as nccl-tests would print it."""
    path = folder / "all_reduce.log"
    path.write_text(syncline.bench("all-reduce", "dgx-a100", sizes="64KiB:1GiB:x4").text)
    return path


def when_long(cancel: syncline.Cancellation, seen: list[syncline.Standing]) -> Callable[[syncline.Standing], None]:
    """Cancels once the second simulation has begun."""

    def hear(standing: syncline.Standing) -> None:
        seen.append(standing)
        if standing.done == 1 and standing.underway:
            cancel.cancel()

    return hear


class TestProgress:
    def test_what_looks_on_changes_nothing(self) -> None:
        seen: list[syncline.Standing] = []
        watched = syncline.run(SHORT, progress=seen.append, cancel=syncline.Cancellation())
        alone = syncline.run(SHORT)
        assert {**watched.document, "cost": 0} == {**alone.document, "cost": 0}
        assert watched.systems["long"].tables["links"].to_arrow() == alone.systems["long"].tables["links"].to_arrow()

    def test_counts_all_events(self) -> None:
        seen: list[syncline.Standing] = []
        both = {**SHORT, "variants": [{"name": "a"}, {"name": "b", "collective": {"chunk": "32KiB"}}]}
        run = syncline.run(both, progress=seen.append)
        assert seen[-1].events == run.document["cost"]["events"] > 0
        assert seen[-1].expected_events is not None
        assert not seen[-1].underway
        assert [standing.events for standing in seen] == sorted(standing.events for standing in seen)

    def test_an_exception_of_what_hears_ends_simulations(self, monkeypatch: pytest.MonkeyPatch) -> None:
        ended = threading.Event()
        run = engine.run

        def watched(*arguments: Any, **known: Any) -> engine.Result:
            try:
                return run(*arguments, **known)
            except syncline.CancelledError:
                ended.set()
                raise

        monkeypatch.setattr(engine, "run", watched)

        def fail(standing: syncline.Standing) -> None:
            if standing.underway:
                raise RuntimeError("enough")

        with pytest.raises(RuntimeError, match="enough"):
            syncline.run(LONG, progress=fail)
        assert ended.wait(60)

    def test_what_cannot_hear(self) -> None:
        with pytest.raises(syncline.InputError, match="arguments: progress: this cannot be told of progress"):
            syncline.run(SHORT, progress="bar")  # type: ignore[arg-type]


def test_an_interrupt_ends_simulations() -> None:
    """The thread of an interrupted run does not go on with it."""
    variants = studies.load(LONG)._study.variants
    monitors: list[Any] = []

    def interrupt(standing: syncline.Standing) -> None:
        if standing.underway:
            raise KeyboardInterrupt

    created = cancelling.monitor

    def noted(cancel: syncline.Cancellation | None) -> Any:
        monitors.append(created(cancel))
        return monitors[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cancelling, "monitor", noted)
        outcomes = runner.run_all(variants, watch=interrupt)
    assert outcomes.interrupted
    assert not outcomes.cancelled
    assert monitors[0].cancelled


def test_a_process_that_ends_waits_for_what_is_under_way(tmp_path: Path) -> None:
    """Python would end the thread, which is fatal inside of native code."""
    script = tmp_path / "cancelled.py"
    script.write_text(CANCELLED)
    ended = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr, ended.stdout) == (0, "", "cancelled\nended\n")


CANCELLED = """
import time
import syncline
from syncline.engine import runner

cancel = syncline.Cancellation()


def task():
    cancel.cancel()
    time.sleep(0.5)
    print("ended")


try:
    list(runner.concurrently([("task", task)], 1, cancel=cancel))
except syncline.CancelledError:
    print("cancelled", flush=True)
"""
