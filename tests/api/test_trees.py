"""Functions that pack trees give the documents of their commands, in fields with types."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq
import pytest

import syncline
from support.command import Ended
from support.results import apart_from_cost, shows_itself

Command = Callable[..., Ended]

LINKS: Final = """
npus: 3
links:
  - {from: 0, to: 1, rate: 20GB/s, latency: 500ns, class: NVLink}
  - {from: 1, to: 2, rate: 30GB/s, latency: 500ns, class: NVLink}
  - {from: 0, to: 1, rate: 7GB/s, latency: 500ns, class: PCIe}
  - {from: 0, to: 2, rate: 7GB/s, latency: 500ns, class: PCIe}
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def of_command(command: Command, *words: str) -> dict[str, Any]:
    ended = command(*words, "--json")
    assert ended.status == 0, ended.err
    return apart_from_cost(json.loads(ended.out))


def places(error: pytest.ExceptionInfo[syncline.InputError]) -> list[str]:
    """Where the problems are, none of which speaks of a command."""
    assert " --" not in str(error.value)
    assert "command line:" not in str(error.value)
    return [f"{problem.file}: {problem.field}" for problem in error.value.problems]


class TestHybrid:
    GIVEN: Final[dict[str, Any]] = {
        "machine": "dgx1v",
        "gpus": [0, 1, 2, 3],
        "links": "hybrid",
        "switch_latency": "100us",
        "size": "500MB",
    }
    COMMAND: Final = (
        *("trees", "--machine", "dgx1v", "--gpus", "0-3", "--links", "hybrid"),
        *("--switch-latency", "100us", "--size", "500MB"),
    )

    def test_equals_the_command(self, syncline_command: Command) -> None:
        found = syncline.trees(**self.GIVEN)
        assert apart_from_cost(found.document) == of_command(syncline_command, *self.COMMAND)
        shows_itself(found)

    def test_says_what_goes_where(self) -> None:
        found = syncline.trees(**self.GIVEN)
        nvlink, pcie = found.parts
        assert (nvlink.links, pcie.links, found.links) == ("nvlink", "pcie", "hybrid")
        assert nvlink.size_bytes + pcie.size_bytes == found.size_bytes == 500_000_000
        assert found.trees == (*nvlink.trees, *pcie.trees)
        assert [tree.links for tree in pcie.trees] == ["pcie"]
        assert found.rate_bytes_per_s == nvlink.rate_bytes_per_s + pcie.rate_bytes_per_s
        assert found.rate_links == pytest.approx(nvlink.rate_links + pcie.rate_links)
        assert (found.switch_latency_s, found.switch_s) == pytest.approx((1e-4, 4e-4))
        assert found.predicted_time_s is not None
        assert found.nvlink_only_time_s is not None
        assert found.table.to_arrow().column("links").to_pylist() == [tree.links for tree in found.trees]
        alone = syncline.trees("dgx1v", gpus=[0, 1, 2, 3], links="nvlink", size="500MB")
        assert (alone.parts, alone.switch_s, alone.nvlink_only_time_s) == ((), None, None)
        assert alone.rate_links == nvlink.rate_links

    def test_rates_of_parts_in_units_of_their_own(self) -> None:
        """NVLinks have no one rate, so that either part is counted in the largest unit of its own links."""
        Path("links.yaml").write_text(LINKS)
        found = syncline.trees(topology_file="links.yaml", links="hybrid")
        assert [(part.rate_links, part.rate_bytes_per_s) for part in found.parts] == [(2, 20e9), (1, 7e9)]
        assert (found.rate_links, found.optimal_rate_links, found.rate_bytes_per_s) == (2.7, 2.7, 27e9)

    def test_says_what_is_wrong(self) -> None:
        with pytest.raises(syncline.InputError) as caught:
            syncline.trees(**self.GIVEN | {"objective": "trees", "root": "auto", "switch_latency": "soon"})
        assert places(caught) == [f"arguments: {name}" for name in ("objective", "root", "switch_latency")]
        with pytest.raises(syncline.InputError, match="accepted: links hybrid beside it") as caught:
            syncline.trees("dgx1v", switch_latency="100us")
        assert places(caught) == ["arguments: switch_latency"]
        with pytest.raises(syncline.InputError, match=r"links: .* these GPUs are in several"):
            syncline.trees("dgx1v(nodes=2)", links="hybrid")
        with pytest.raises(syncline.InputError, match="switch_latency: this is not text"):
            syncline.trees("dgx1v", links="hybrid", switch_latency=4)  # type: ignore[arg-type]


class TestComparison:
    GIVEN: Final[dict[str, Any]] = {"machine": "dgx1v", "gpus": "1,4-6", "size": "8MB", "compare": True}
    COMMAND: Final = ("trees", "--machine", "dgx1v", "--gpus", "1,4-6", "--size", "8MB", "--compare")

    @pytest.mark.parametrize(
        ("given", "flags"),
        [
            ({"endpoint": "streams", "root": 5}, ("--endpoint", "streams", "--root", "5")),
            (
                {"collective": "all-reduce", "backend": "analytical"},
                ("--collective", "all-reduce", "--backend", "analytical"),
            ),
            ({"links": "hybrid", "endpoint": "streams"}, ("--links", "hybrid", "--endpoint", "streams")),
            ({"objective": "trees", "overhead": "5us"}, ("--objective", "trees", "--overhead", "5us")),
        ],
    )
    def test_equals_the_command(
        self, given: dict[str, Any], flags: tuple[str, ...], syncline_command: Command, capsys: Any
    ) -> None:
        found = syncline.trees(**self.GIVEN | given)
        assert capsys.readouterr() == ("", "")
        assert apart_from_cost(found.document) == of_command(syncline_command, *self.COMMAND, *flags)
        assert found.comparison is not None
        assert "<table>" in found.comparison._repr_html_()
        shows_itself(found)

    def test_rows_have_types(self) -> None:
        found = syncline.trees(**self.GIVEN).comparison
        assert found is not None
        trees, rings, double, bound = found.rows
        assert [row.algorithm for row in found] == ["packed-trees", "ring", "double-binary-tree", None]
        assert len(found) == 4
        assert (found.backend, found.endpoint) == ("flow", "ideal")
        assert trees.over == ("NVLink",)
        assert trees.time_s is not None
        assert rings.time_s is not None
        assert bound.time_s is not None
        assert bound.time_s < trees.time_s < rings.time_s
        assert (double.reason is None) == (double.time_s is not None)
        rows = found.table.to_arrow().to_pylist()
        assert [row["time_s"] for row in rows] == [row.time_s for row in found]
        assert rows[0]["over"] == "NVLink"
        assert found.table.columns["time_s"]["unit"] == "s"
        alone = syncline.collective("broadcast", "8MB", machine="dgx1v", gpus="1,4-6", backend="flow", algorithm="ring")
        assert rings.time_s == alone.time_s
        assert syncline.trees("dgx1v", gpus="1,4-6").comparison is None

    def test_progress_is_one_of_all_schedules(self) -> None:
        heard: list[syncline.Standing] = []
        syncline.trees(**self.GIVEN, progress=heard.append)
        assert [standing.done for standing in heard] == sorted(standing.done for standing in heard)
        assert [standing.events for standing in heard] == sorted(standing.events for standing in heard)
        assert {standing.total for standing in heard} == {3}
        assert heard[0].waiting == ("packed trees", "NCCL-like rings", "double binary trees")
        assert [(standing.done, standing.waiting) for standing in heard if standing.is_over] == [(3, ())]

    def test_is_cancelled_inside_of_a_simulation(self) -> None:
        cancel = syncline.Cancellation()
        heard: list[syncline.Standing] = []

        def hear(standing: syncline.Standing) -> None:
            heard.append(standing)
            if standing.events:
                cancel.cancel()

        with pytest.raises(syncline.CancelledError):
            syncline.trees(**self.GIVEN | {"size": "64GB", "backend": "packet"}, progress=hear, cancel=cancel)
        assert {standing.done for standing in heard} == {0}  # the first of the schedules did not run to its end
        assert [standing.is_over for standing in heard if standing.is_over] == [heard[-1].is_over]
        with pytest.raises(syncline.CancelledError):
            syncline.trees("dgx1v", cancel=cancel)

    def test_says_what_is_wrong(self) -> None:
        with pytest.raises(syncline.InputError) as caught:
            syncline.trees(**self.GIVEN | {"backend": "fast", "endpoint": "ace", "root": 2})
        assert places(caught) == [f"arguments: {name}" for name in ("backend", "endpoint", "root")]
        with pytest.raises(syncline.InputError, match="without compare") as caught:
            syncline.trees("dgx1v", backend="flow", endpoint="ideal")
        assert places(caught) == ["arguments: backend", "arguments: endpoint"]
        with pytest.raises(syncline.InputError) as caught:
            syncline.trees(topology_file="-", compare="yes", endpoint=4, cancel=3)  # type: ignore[arg-type]
        assert places(caught) == [f"arguments: {name}" for name in ("endpoint", "topology_file", "compare", "cancel")]


class TestSweep:
    GIVEN: Final[dict[str, Any]] = {"machine": "dgx1v", "gpus": [0, 1, 2, 3], "size": "8MB"}
    COMMAND: Final = ("trees", "--machine", "dgx1v", "--gpus", "0-3", "--size", "8MB", "--sweep", "allocations")

    @pytest.mark.parametrize(
        ("given", "flags"),
        [
            ({"sizes": [3, 4], "compare": True, "threads": 1}, ("--sizes", "3,4", "--compare")),
            ({"every": True, "collective": "all-reduce"}, ("--every", "--collective", "all-reduce")),
        ],
    )
    def test_equals_the_command(
        self, given: dict[str, Any], flags: tuple[str, ...], syncline_command: Command, capsys: Any
    ) -> None:
        found = syncline.trees_sweep(**self.GIVEN | given)
        assert capsys.readouterr() == ("", "")
        threads = ("--threads", "1", "--svg", "figure.svg", "-o", "command.csv")
        assert apart_from_cost(found.document) == of_command(syncline_command, *self.COMMAND, *flags, *threads)
        assert found.save("function.csv") == Path("function.csv")
        assert Path("function.csv").read_text() == Path("command.csv").read_text()
        assert found.svg == Path("figure.svg").read_text()
        shows_itself(found)

    def test_its_table_and_its_journal(self) -> None:
        heard: list[syncline.Standing] = []
        found = syncline.trees_sweep(**self.GIVEN, sizes="3-4", out="t.parquet", progress=heard.append)
        arrow = found.table.to_arrow()
        assert arrow == pq.read_table("t.parquet")
        assert (found.machine, found.collective, found.allocations, found.failed) == ("dgx1v", "broadcast", 5, ())
        assert arrow.column("gpus").to_pylist()[-1] == "0-3"
        assert found.table.columns["trees_rate_links"]["unit"] == "links"
        assert (heard[-1].done, heard[-1].total, heard[-1].is_over) == (len(found), len(found), True)
        assert heard[0].waiting[-1] == "0-3"
        again = syncline.trees_sweep(**self.GIVEN, sizes="3-4", out="t.parquet", resume=True, progress=heard.append)
        assert again.table.to_arrow() == arrow
        assert heard[-1].total - len(heard[-1].waiting) == len(found)
        assert syncline.trees_sweep(**self.GIVEN, sizes=4).table.to_arrow() == arrow.slice(len(found) - 1)
        found.save("t.json")
        assert json.loads(Path("t.json").read_text()) == found.document

    @pytest.mark.parametrize("threads", [1, 2])
    def test_is_cancelled(self, threads: int) -> None:
        cancel = syncline.Cancellation()

        def hear(standing: syncline.Standing) -> None:
            if standing.done == 1:
                cancel.cancel()

        given = self.GIVEN | {"compare": True, "backend": "packet", "size": "1MB", "threads": threads}
        with pytest.raises(syncline.CancelledError, match=r"[1-4] of 5 allocations are finished"):
            syncline.trees_sweep(**given, out="t.csv", progress=hear, cancel=cancel)
        rows = Path("t.csv").read_text().count("done")
        assert 1 <= rows < 5
        with pytest.raises(syncline.CancelledError):
            syncline.trees_sweep(**given, cancel=cancel)

    @pytest.mark.parametrize(
        ("given", "wrong"),
        [
            ({"links": "hybrid", "threads": 0, "every": 1}, ("threads", "every", "links")),
            ({"sizes": "1-3", "out": "table.txt"}, ("out", "sizes")),
            ({"sizes": 9}, ("sizes",)),
            ({"gpus": 4}, ("gpus",)),
            ({"gpus": [4]}, ("gpus",)),
            ({"resume": True}, ("resume",)),
            ({"backend": "flow", "objective": "fast"}, ("objective", "backend")),
            ({"machine": "dgx1v(nodes=8)", "gpus": None, "every": True}, ("sizes",)),
            ({"machine": "dgx-a100(nodes=40)", "gpus": None}, ("gpus",)),
            ({"machine": None}, ("machine",)),
            ({"collective": None, "links": None, "size": None}, ("collective", "links")),
        ],
    )
    def test_says_what_is_wrong(self, given: dict[str, Any], wrong: tuple[str, ...]) -> None:
        with pytest.raises(syncline.InputError) as caught:
            syncline.trees_sweep(**self.GIVEN | given)
        assert places(caught) == [f"arguments: {name}" for name in wrong]

    def test_what_cannot_be_saved(self) -> None:
        found = syncline.trees_sweep(**self.GIVEN, sizes=2)
        Path("mine.csv").write_text("mine\n")
        for path, said in (("mine.csv", "not a table of allocations"), ("nowhere/t.csv", "does not exist"), (4, "int")):
            with pytest.raises(syncline.InputError, match=said) as caught:
                found.save(path)  # type: ignore[arg-type]
            assert places(caught) == ["arguments: path"]
