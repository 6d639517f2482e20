"""Reading tables: CSV, logs with anything around them, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncline.base.errors import InputError
from syncline.nccl import measurements

LOG = """\
some banner of the job
[1,0]<stdout>:# Collective test starting: all_reduce_perf
[1,0]<stdout>:# nThread 1 nGpus 1 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 5 iters: 20
[1,0]<stdout>:# Using devices
[1,0]<stdout>:#  Rank  0 Group  0 Pid   6899 on node-a device  0 [0000:04:00] NVIDIA H100 80GB HBM3
[1,0]<stdout>:#  Rank  1 Group  0 Pid   6900 on node-a device  1 [0000:05:00] NVIDIA H100 80GB HBM3
[1,0]<stdout>:#  Rank  2 Group  0 Pid   6733 on node-b device  0 [0000:04:00] NVIDIA H100 80GB HBM3
[1,0]<stdout>:#  Rank  3 Group  0 Pid   6734 on node-b device  1 [0000:05:00] NVIDIA H100 80GB HBM3
[1,0]<stdout>:#                                       out-of-place                       in-place
[1,0]<stdout>:#  size  count  type  redop  root  time   algbw   busbw #wrong     time   algbw   busbw #wrong
[1,0]<stdout>:    8      2     float     sum      -1    12.90    0.00    0.00      0    12.87    0.00    0.00      0
node-a:1:2 [0] NCCL INFO a line between
[1,0]<stdout>: 1048576 262144  float     sum      -1    37.89   27.67   41.51      0    38.57   27.19   40.78    N/A
[1,0]<stdout>: 134217728 33554432 float  sum      -1   1181.6  113.59  170.38      0   1187.8  113.00  169.50      0
[1,0]<stdout>:# Out of bounds values : 0 OK
[1,0]<stdout>:# Avg bus bandwidth    : 72.7724
"""

OLD_BROADCAST = """\
#       size         count    type    root     time   algbw   busbw  error     time   algbw   busbw  error
           0             0   float       0    57.30    0.00    0.00  0e+00    57.09    0.00    0.00  0e+00
     1048576        262144   float       0    74.62   14.05   14.05  0e+00    79.08   13.26   13.26  0e+00
  8589934592    2147483648   float       0    70321  122.15  122.15  0e+00    70368  122.07  122.07  0e+00
"""

ONE_COLUMN = """\
#       size         count    type   redop     time   algbw   busbw  #wrong
     1048576        262144   float     sum   165.33    6.34    6.34       0
     8388608       2097152   float     sum  1201.02    6.98    6.98       0
"""


def refused(text: str) -> list[str]:
    with pytest.raises(InputError) as caught:
        measurements.parse(text, "t.log")
    return [str(problem) for problem in caught.value.problems]


class TestLogs:
    def test_rows_ranks_and_the_collective(self) -> None:
        table = measurements.parse(LOG, "t.log")
        assert (table.kind, table.gpus, table.nodes, table.algorithm) == ("all-reduce", 4, 2, "auto")
        assert table.about["gpu"] == "NVIDIA H100 80GB HBM3"
        assert [row.size for row in table.rows] == [8, 1048576, 134217728]
        assert table.rows[1].out_of_place == pytest.approx(37.89e-6)
        assert dict(table.times("in-place"))[1048576] == pytest.approx(38.57e-6)
        assert table.rows[1].line == 13

    def test_an_old_broadcast_has_a_root_and_no_operation(self) -> None:
        table = measurements.parse(OLD_BROADCAST, "t.log")
        assert dict(table.times()) == pytest.approx({1048576: 74.62e-6, 8589934592: 70321e-6})
        assert (table.kind, table.gpus) == (None, None)

    def test_one_set_of_columns(self) -> None:
        table = measurements.parse(ONE_COLUMN, "t.log")
        assert table.rows[0].in_place is None
        assert table.times("in-place") == []

    def test_what_the_run_was_told(self) -> None:
        table = measurements.parse("mpirun -x NCCL_ALGO=Ring -x NCCL_NVLS_ENABLE=0 ./all_gather_perf\n" + LOG, "t")
        assert (table.algorithm, table.nvls, table.kind) == ("ring", False, "all-gather")

    def test_lines_of_ranks_that_are_missing_are_noticed_by_the_bandwidths(self) -> None:
        cut = "".join(line for line in LOG.splitlines(keepends=True) if "Rank  2" not in line and "Rank  3" not in line)
        (problem,) = refused(cut)
        assert "the lines of ranks are those of 2 GPUs, and busbw over algbw is that of 4" in problem

    def test_gpus_follow_from_the_bandwidths(self) -> None:
        rows = "1073741824 268435456 float sum -1 4029.4 266.48 466.33 0 4016.4 267.34 467.85 0\n"
        assert measurements.parse("# all_reduce_perf\n" + rows, "t").gpus == 8

    def test_a_commented_row_is_none(self) -> None:
        assert len(measurements.parse(LOG + "#  2097152 524288 float sum -1 40.0 52.43 78.6 0\n", "t").rows) == 3


class TestRefusals:
    def test_nothing_in_it(self) -> None:
        (message,) = refused("hello\n")
        assert "no row of nccl-tests is in it" in message
        assert "accepted: the output of an nccl-tests program, or CSV" in message

    def test_every_bad_row_with_its_line(self) -> None:
        bad = LOG.replace("37.89   27.67", "37.89   72.67").replace("1181.6  113.59", "-5  113.59")
        messages = refused(bad)
        assert [m.split(": ")[0] for m in messages] == ["t.log:13", "t.log:14"]
        assert "1048576 bytes in 37.89 us are 27.67 GB/s, not 72.67" in messages[0]
        assert "this is not a time" in messages[1]

    def test_a_size_twice(self) -> None:
        (message,) = refused(ONE_COLUMN + "1048576 262144 float sum 165.33 6.34 6.34 0\n")
        assert message.startswith("t.log:4: size: the size is measured twice; the first is on line 2")

    def test_rows_with_wrong_results(self) -> None:
        counted = LOG.replace("38.57   27.19   40.78    N/A", "38.57   27.19   40.78      5")
        assert [row.wrong for row in measurements.parse(LOG, "t.log").rows] == [False] * 3
        assert [row.wrong for row in measurements.parse(counted, "t.log").rows] == [False, True, False]
        deviated = OLD_BROADCAST.replace("14.05   14.05  0e+00", "14.05   14.05  2e-06")
        assert not any(row.wrong for row in measurements.parse(deviated, "t.log").rows)

    def test_of_several_collectives_one_is_taken(self) -> None:
        gather = LOG.replace("all_reduce_perf", "all_gather_perf").replace(
            "37.89   27.67   41.51", "18.95   55.33   41.50"
        )
        both = "export NCCL_ALGO=Ring\n" + LOG + gather
        (message,) = refused(both)
        assert message.startswith(
            "t.log:27: these are tables of several collectives: all-reduce (line 11), all-gather (l"
        )
        for kind, time, line in (("all-reduce", 37.89e-6, 14), ("all-gather", 18.95e-6, 30)):
            table = measurements.parse(both, "t.log", kind)
            assert (table.kind, table.gpus, table.algorithm) == (kind, 4, "ring")
            assert table.rows[1].out_of_place == pytest.approx(time)
            assert table.rows[1].line == line
        with pytest.raises(InputError, match="these are tables of several collectives"):
            measurements.parse(both, "t.log", "broadcast")

    @pytest.mark.parametrize("cut", ["1677", "16777216 4194", "16777216 4194304 float", "1: 16777216 4194304"])
    def test_a_log_that_ends_within_a_row(self, cut: str) -> None:
        (message,) = refused(ONE_COLUMN + f"  {cut}\n\n")
        assert message.startswith("t.log:4: row: the log ends within this row")
        assert f"given: {cut}" in message
        assert measurements.parse(ONE_COLUMN + "# Avg bus bandwidth : 12\n# 1 of 2\n", "t.log").rows

    def test_a_row_that_was_cut(self) -> None:
        (message,) = refused(ONE_COLUMN + "16777216 4194304 float sum 2400.0 6.99\n")
        assert "neither one nor two sets" in message

    @pytest.mark.parametrize(
        ("row", "reason"),
        [
            ("8,x", "not a time"),
            ("8,0", "not a time"),
            ("8,nan", "not a time"),
            ("8.5,3", "not a number of bytes"),
            ("8,3,4", "3 cells, the header 2"),
            ("9999999999999999,3", "too large"),
        ],
    )
    def test_a_bad_cell(self, row: str, reason: str) -> None:
        (message,) = refused(f"# n: 8\nsize_bytes,time_us\n{row}\n")
        assert message.startswith("t.log:3: ")
        assert reason in message

    def test_a_csv_without_times(self) -> None:
        assert "there is no column of times" in refused("size_bytes,busbw\n8,1\n")[0]

    def test_a_count_that_is_none(self) -> None:
        assert "not a number" in refused("# gpus: many\nsize_bytes,time_us\n8,1\n")[0]

    def test_a_file_that_is_missing(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="there is no such file"):
            measurements.read_table(tmp_path / "none.csv")


class TestAnything:
    @given(st.text(max_size=400))
    def test_text_is_read_or_refused(self, text: str) -> None:
        for candidate in (text, "size_bytes,time_us\n" + text, LOG + text):
            try:
                table = measurements.parse(candidate, "t")
            except InputError as error:
                assert error.problems
            else:
                assert all(time > 0 for _, time in table.times())

    @given(st.data())
    def test_a_damaged_log_is_read_or_refused(self, data: st.DataObject) -> None:
        at = data.draw(st.integers(0, len(LOG) - 1))
        damaged = LOG[:at] + data.draw(st.characters()) + LOG[at + data.draw(st.integers(0, 3)) :]
        try:
            assert measurements.parse(damaged, "t").rows
        except InputError as error:
            assert error.problems

    @given(st.dictionaries(st.integers(1, 2**40), st.integers(1, 10**9), min_size=1, max_size=30))
    def test_what_is_written_is_read(self, times: dict[int, int]) -> None:
        text = "size_bytes,time_us\n" + "".join(f"{size},{us / 100:.2f}\n" for size, us in times.items())
        read = dict(measurements.parse(text, "t").times())
        assert read == pytest.approx({size: us / 100 * 1e-6 for size, us in times.items()})


class TestPackagedTables:
    @pytest.mark.parametrize("name", measurements.names())
    def test_each_says_where_it_is_from(self, name: str) -> None:
        table = measurements.packaged(name)
        assert table.about["source"]
        assert table.about["system"]
        assert table.about["machine"]
        assert table.kind is not None
        assert len(table.times()) == len(table.rows) > 3
