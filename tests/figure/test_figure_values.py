"""The numbers of panels, from rows whose numbers are known."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pytest
from matplotlib.text import Text

from support.figures import MIB, file_of, rows, shown, space
from syncline.base.errors import InputError
from syncline.commands.cli import tables
from syncline.report.figures import draw
from syncline.studies.figures import directions, values
from syncline.studies.figures.file import FigureFile, Panel
from syncline.studies.figures.values import Shown
from syncline.studies.sweeps import table


def _shown(tmp_path: Path, panel: str) -> Shown:
    return shown(file_of(tmp_path, panel))[0]


def _first(file: FigureFile) -> Panel:
    (panel,) = file.figure.panels
    assert isinstance(panel, Panel)
    return panel


def _of(shown: Shown) -> dict[tuple[Any, Any, str], float]:
    return {(v.x, v.series, v.part): v.value for v in shown.values}


def test_values_are_in_the_unit_of_the_panel(tmp_path: Path) -> None:
    shown = _shown(
        tmp_path,
        "kind: lines, x: endpoint.fsms, y: iteration_time_s, unit: us, series: variant, "
        "where: {base: b1, endpoint.sram: 4MiB}",
    )
    assert _of(shown) == {
        (8, "Slow", "iteration_time_s"): pytest.approx(1000),
        (8, "Fast", "iteration_time_s"): pytest.approx(500),
        (16, "Slow", "iteration_time_s"): pytest.approx(500),
        (16, "Fast", "iteration_time_s"): pytest.approx(250),
    }
    assert shown.y_scale.unit == "us"


def test_relative_values_are_of_the_row_that_differs_in_these_columns_only(tmp_path: Path) -> None:
    panel = "kind: bars, x: base, y: iteration_time_s, series: endpoint.sram, where: {endpoint.fsms: 16, variant: Slow}"
    ratio = _shown(tmp_path, f"{panel}, relative_to: {{variant: Fast}}")
    assert set(_of(ratio).values()) == {2.0}
    assert ratio.measure == "relative iteration time"
    assert _shown(tmp_path, f"{panel}, relative_to: {{variant: Fast}}, y_label: 'slower by [x]'").measure == "slower by"
    speedup = _shown(
        tmp_path, f"{panel}, relative_to: {{variant: Fast, endpoint.sram: 1MiB}}, speedup: true, unit: '%'"
    )
    assert _of(speedup) == {
        (base, sram, "iteration_time_s"): pytest.approx(100 / (2 * sram / MIB))
        for base in ("b1", "b3")
        for sram in (MIB, 4 * MIB)
    }


def test_every_variant_is_relative_to_itself_where_another_column_differs(tmp_path: Path) -> None:
    """Four times the SRAM takes four times as long, of the slow variant and of the fast one."""
    panel = "kind: bars, x: base, y: iteration_time_s, series: variant, where: {endpoint.fsms: 16, endpoint.sram: 4MiB}"
    ratio = _shown(tmp_path, f"{panel}, relative_to: {{endpoint.sram: 1MiB}}")
    assert _of(ratio) == {
        (base, variant, "iteration_time_s"): pytest.approx(4) for base in ("b1", "b3") for variant in ("Slow", "Fast")
    }


@pytest.mark.parametrize(
    ("panel", "message"),
    [
        ("x: base, y: zero_s, relative_to: {variant: Fast}", r"0\.relative_to: zero_s is 0 there"),
        ("x: base, y: iteration_time_s, relative_to: {variant: None}", r"0\.relative_to: no simulation that succeeded"),
        ("x: base, y: iteration_time_s, where: {variant: None}", r"0\.where: no simulation that succeeded has these"),
        ("x: base, y: none_s, where: {variant: Fast}", r"0\.y: no simulation that is shown has a value of this"),
        ("x: none_s, y: zero_s, where: {variant: Fast}", r"0\.x: no simulation that is shown has a value of this"),
    ],
)
def test_a_panel_that_shows_nothing_says_why(tmp_path: Path, panel: str, message: str) -> None:
    file = file_of(tmp_path, f"kind: bars, mean: true, {panel}")
    found = table.of_rows(
        [{**row, "none_s": 1.0 if row["variant"] == "Slow" else None} for row in rows()], ("base", "variant")
    )
    with pytest.raises(InputError, match=message):
        values.of(file, 0, _first(file), [found])


@pytest.mark.parametrize("times", [[1, 2, 6], [5, 5, 1, 9], [4, 3]])
def test_a_mean_is_that_of_all_rows_and_a_spread_has_their_ends(times: list[int], tmp_path: Path) -> None:
    listed = [{"base": f"b{n}", "variant": "v", "status": "done", "x": 1, "t_s": t} for n, t in enumerate(times)]

    def of(more: str) -> dict[str, float]:
        file = file_of(tmp_path, f"kind: bars, x: x, y: t_s, unit: s, {more}")
        return {
            value.part: value.value
            for value in values.of(file, 0, _first(file), [table.of_rows(listed, ("x",))]).values
        }

    assert of("mean: true") == {"t_s": pytest.approx(sum(times) / len(times))}
    assert of("spread: true") == {"least t_s": min(times), "most t_s": max(times)}


def test_means_are_asked_for(tmp_path: Path) -> None:
    panel = "kind: heat, x: endpoint.fsms, series: endpoint.sram, y: iteration_time_s, unit: ms, where: {variant: Fast}"
    with pytest.raises(InputError, match="2 simulations have the same endpoint"):
        _shown(tmp_path, panel)
    shown = _shown(tmp_path, f"{panel}, mean: true")
    assert _of(shown)[16, 4 * MIB, "iteration_time_s"] == pytest.approx((4 / 16 + 3 * 4 / 16) / 2)
    assert (shown.x_text(16), shown.series_text(4 * MIB)) == ("16", "4 MiB")


@pytest.mark.parametrize(
    ("size", "text"),
    [(2**10, "1 KiB"), (2**20, "1 MiB"), (16_000_000, "16 MB"), (1000, "1 KB"), (3 * 2**19, "1.5 MiB"), (0, "0 B")],
)
def test_each_size_has_a_unit_of_its_own(tmp_path: Path, size: int, text: str) -> None:
    rows = [{"status": "done", "size_bytes": n, "of_bytes": n, "time_s": 1.0 + n} for n in (size, 2**30)]
    found = table.of_rows(rows, ("size_bytes",))
    for kind, label in (("bars", "size"), ("heat", "size")):
        file = file_of(tmp_path, f"kind: {kind}, x: size, y: time_s, series: of")
        panel = values.of(file, 0, _first(file), [found])
        assert (panel.x_text(size), panel.series_text(size)) == (text, text)
        _, (axes,) = draw.drawing(file.figure, [panel])
        assert [tick.get_text() for tick in axes.get_xticklabels()] == [text, "1 GiB"]
        assert axes.get_xlabel() == label, "ticks have the units"


def test_ticks_of_a_logarithmic_axis_are_short(tmp_path: Path) -> None:
    rows = [{"status": "done", "size_bytes": n, "time_s": 1.0 + n} for n in (2**10, 2**15, 2**20)]
    file = file_of(tmp_path, "kind: lines, x: size, y: time_s, log: true")
    panel = values.of(file, 0, _first(file), [table.of_rows(rows, ("size_bytes",))])
    _, (axes,) = draw.drawing(file.figure, [panel])
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["1 KiB", "32 KiB", "1 MiB"]


def test_bytes_have_a_unit_whatever_their_column_ends_with(tmp_path: Path) -> None:
    rows = [{"status": "done", "n": n, "bytes_sent_per_npu": 3 * 2**19} for n in (65_537, 131_073)]
    file = file_of(tmp_path, "kind: bars, x: n, y: bytes_sent_per_npu")
    panel = values.of(file, 0, _first(file), [table.of_rows(rows, ("n",))])
    assert (panel.y_scale.unit, panel.values[0].value) == ("MiB", 1.5)
    assert panel.x_text(131_073) == "131073", "counts are whole"
    _, (axes,) = draw.drawing(file.figure, [panel])
    assert axes.get_ylabel() == "bytes sent per NPU [MiB]"


def test_a_spread_has_the_least_and_the_most(tmp_path: Path) -> None:
    panel = (
        "kind: bars, x: endpoint.fsms, series: endpoint.sram, y: iteration_time_s, unit: ms, where: {variant: Fast}, "
        "published: [{x: 16, series: 4MiB, value: 0.5}]"
    )
    spread = _shown(tmp_path, f"{panel}, spread: true")
    found, mean = _of(spread), _of(_shown(tmp_path, f"{panel}, mean: true"))
    assert found[16, 4 * MIB, "least iteration_time_s"] == pytest.approx(4 / 16)
    assert found[16, 4 * MIB, "most iteration_time_s"] == pytest.approx(3 * 4 / 16)
    assert {key[:2] for key in found} == {key[:2] for key in mean}
    assert [v.part for v in spread.values if v.published is not None] == ["most iteration_time_s"]
    assert {spread.part_name(v.part) for v in spread.values} == {"least_iteration_time_ms", "most_iteration_time_ms"}
    for other in ("kind: lines", "kind: bars, mean: true"):
        with pytest.raises(InputError, match="spread"):
            _shown(tmp_path, f"{panel.replace('kind: bars', other)}, spread: true")


def test_parts_are_stacked(tmp_path: Path) -> None:
    shown = _shown(
        tmp_path,
        "kind: stacked, x: base, y: [iteration_time_s, exposed_comm_s], series: variant, "
        "where: {endpoint.fsms: 8, endpoint.sram: 1MiB}",
    )
    found = _of(shown)
    assert found["b1", "Slow", "iteration_time_s"] == 4 * found["b1", "Slow", "exposed_comm_s"]


def test_published_values_stand_beside_simulated_ones(tmp_path: Path) -> None:
    panel = "kind: bars, x: base, y: iteration_time_s, series: endpoint.sram, unit: ms, "
    where = "where: {endpoint.fsms: 8, variant: Fast}, "
    published = "published: [{x: b3, series: 4MiB, value: 1.6}, {value: 2, label: all}]"
    shown = _shown(tmp_path, panel + where + published)
    assert {(v.x, v.series): v.published for v in shown.values if v.published is not None} == {("b3", 4 * MIB): 1.6}
    assert [line.value for line in shown.lines] == [2]
    with pytest.raises(InputError, match=r"published\.0: the panel shows nothing at this x and series"):
        _shown(tmp_path, panel + where + "published: [{x: b4, value: 1}]")


@pytest.mark.parametrize(
    ("panel", "message"),
    [
        ("kind: bars, x: bass, y: iteration_time_s", "no simulation has a column 'bass'; did you mean 'base'"),
        ("kind: bars, x: base, y: iteration_time_s, where: {variant: None}", "no simulation that succeeded has these"),
        ("kind: bars, x: base, y: iteration_time_s, where: {endpoint.sram: 4ms}", "no simulation that succeeded"),
    ],
)
def test_what_no_row_has_is_refused(tmp_path: Path, panel: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        _shown(tmp_path, panel)


def test_the_pareto_front_has_what_no_other_point_beats(tmp_path: Path) -> None:
    shown = _shown(
        tmp_path,
        "kind: scatter, x: area_um2, each: [endpoint.sram, endpoint.fsms], y: iteration_time_s, mean: true, "
        "relative_to: {endpoint.sram: 1MiB, endpoint.fsms: 8}, speedup: true, pareto: true",
    )
    assert len(shown.values) == 4
    # More SRAM is only slower here, more FSMs are faster and larger.
    assert {v.series for v in draw.pareto(shown)} == {"sram 1 MiB, fsms 8", "sram 1 MiB, fsms 16"}


@pytest.mark.parametrize("kind", ["lines", "bars", "stacked", "heat", "scatter"])
def test_drawings_are_equal_byte_for_byte_and_say_everything(tmp_path: Path, kind: str) -> None:
    extra = "each: [endpoint.sram]" if kind == "scatter" else "series: endpoint.sram"
    panel = f"kind: {kind}, x: endpoint.fsms, y: iteration_time_s, unit: ms, mean: true, {extra}, y_label: <&>"
    file = file_of(tmp_path, panel)
    shown = _shown(tmp_path, panel)
    first = draw.draw(file.figure, [shown])
    assert first == draw.draw(file.figure, [shown])
    svg, png, pdf = first
    assert png.startswith(b"\x89PNG")
    assert pdf.startswith(b"%PDF")
    text = svg.decode()
    assert "A figure" in text
    assert "One" in text
    if kind != "heat":
        assert "&lt;&amp;&gt;" in text


@pytest.mark.parametrize("kind", ["lines", "bars", "scatter"])
def test_axes_may_be_logarithmic(tmp_path: Path, kind: str) -> None:
    extra = "each: [endpoint.sram]" if kind == "scatter" else "series: endpoint.sram"
    panel = f"kind: {kind}, x: endpoint.fsms, y: iteration_time_s, unit: ms, mean: true, {extra}"
    file = file_of(tmp_path, f"{panel}, log_y: true")
    figure, (axes,) = draw.drawing(file.figure, shown(file))
    figure.canvas.draw()
    ticks = axes.get_yticklabels() + axes.get_yticklabels(minor=True)
    assert {"0.2", "0.5", "1"} <= {text.get_text() for text in ticks}
    assert (axes.get_yscale(), axes.get_xscale()) == ("log", "linear")
    low, high = axes.get_ylim()
    values = [v.value for v in shown(file)[0].values]
    assert 0 < low < min(values) < max(values) < high
    if kind != "bars":
        file = file_of(tmp_path, f"{panel}, log: true")
        _, (axes,) = draw.drawing(file.figure, shown(file))
        assert (axes.get_yscale(), axes.get_xscale()) == ("linear", "log")


@pytest.mark.parametrize("numbers", [(40, 80), (80,), (558, 579), (1, 1000), (0.003, 5e6)])
def test_ticks_of_points_are_numbers_that_do_not_overlap(tmp_path: Path, numbers: tuple[float, ...]) -> None:
    rows = [{"status": "done", "n": n, "m": n, "value": n} for n in numbers]
    file = file_of(tmp_path, "kind: scatter, x: n, y: value, each: [m], log: true, log_y: true")
    panel = values.of(file, 0, _first(file), [table.of_rows(rows, ("n",))])
    with mpl.rc_context(draw.STYLE):
        figure, (axes,) = draw.drawing(file.figure, [panel])
        figure.canvas.draw()
    for place, (axis, end) in enumerate([(axes.xaxis, "x"), (axes.yaxis, "y")]):
        low, high = axis.get_view_interval()
        texts = [t for t in axis.get_ticklabels(which="both") if low <= t.get_position()[place] <= high]
        seen = [text for text in texts if text.get_text()]
        assert len([float(text.get_text()) for text in seen]) > 1
        boxes = sorted((getattr(box, f"{end}0"), getattr(box, f"{end}1")) for box in map(Text.get_window_extent, seen))
        assert all(one[1] < other[0] for one, other in itertools.pairwise(boxes))


@pytest.mark.parametrize(
    ("panel", "message"),
    [
        ("x: endpoint.fsms, y: zero_s, log_y: true", r"panels\.0\.log_y: 0\.0 cannot be shown on a logarithmic axis"),
        ("x: base, y: iteration_time_s, log: true", r"panels\.0\.log: b1 cannot be shown on a logarithmic axis"),
        (
            "x: endpoint.fsms, y: iteration_time_s, unit: ms, log_y: true, published: [{value: 0}]",
            r"panels\.0\.log_y: 0 cannot be shown on a logarithmic axis",
        ),
    ],
)
def test_what_has_no_logarithm_is_refused(tmp_path: Path, panel: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        _shown(tmp_path, f"kind: lines, mean: true, {panel}")


def test_a_table_for_the_terminal_has_every_value(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = _shown(
        tmp_path,
        "kind: bars, x: base, y: iteration_time_s, series: endpoint.sram, unit: ms, "
        "where: {endpoint.fsms: 8, variant: Fast}, published: [{x: b3, series: 4MiB, value: 1.6}]",
    )
    tables.show(*tables.panel(shown))
    text = capsys.readouterr().out
    assert "iteration time [ms]" in text
    assert ["b3", "4", "MiB", "1.5", "1.6"] in [line.split() for line in text.splitlines()]


@pytest.mark.parametrize(
    ("panel", "measure", "unit"),
    [
        ("kind: bars, x: endpoint.fsms, y: iteration_time, mean: true", "iteration_time_us", "\N{MICRO SIGN}s"),
        ("kind: bars, x: endpoint.fsms, y: iteration_time, mean: true, unit: us", "iteration_time_us", "us"),
        ("kind: bars, x: endpoint.fsms, y: area_um2, mean: true", "area_mm2", "mm\N{SUPERSCRIPT TWO}"),
        (
            "kind: bars, x: endpoint.fsms, y: iteration_time, mean: true, relative_to: {variant: Slow}, speedup: true",
            "speedup_by_iteration_time",
            "",
        ),
    ],
)
def test_a_measure_is_named_with_the_unit_of_its_values(tmp_path: Path, panel: str, measure: str, unit: str) -> None:
    (found,) = shown(file_of(tmp_path, panel))
    assert (found.part_name(found.values[0].part), found.y_scale.unit) == (measure, unit)


def test_wide_panels_fit_a_page_and_no_letter_is_small(tmp_path: Path) -> None:
    bars = "kind: stacked, x: base, series: variant, y: [iteration_time, exposed_comm], mean: true"
    file = file_of(tmp_path, *[bars] * 4)
    figure = file.figure.model_copy(update={"columns": 4, "width": 5.0})
    svg, *_ = draw.draw(figure, shown(file))
    (width,) = re.findall(r'<svg [^>]*?width="([0-9.]+)pt"', svg.decode())
    assert float(width) <= 72 * draw.WIDEST
    sizes = re.findall(r"font(?:-size)?: (?:[a-z0-9]+ )?([0-9.]+)px", svg.decode())
    assert len(sizes) > 20
    assert min(map(float, sizes)) >= draw.SMALL


def test_of_long_names_what_differs_stands_below_an_axis() -> None:
    """Cut at a boundary, so that no number loses digits; short names stay whole."""
    rates = [f"dgx1v(nodes=2, nic_rate={rate}GB/s, efficiency=94%)" for rate in (20, 25, 250)]
    assert draw._varying(rates) == (
        ["20GB/s", "25GB/s", "250GB/s"],
        "dgx1v(nodes=2, nic_rate=\N{HORIZONTAL ELLIPSIS}, efficiency=94%)",
    )
    for names in (["0,1,2", "0,1,3"], ["one"], rates[:1], ["a" * 30, "a" * 31]):
        assert draw._varying(names) == (names, "")


FRONT = "kind: scatter, x: area_um2, each: [endpoint.sram, endpoint.fsms], pareto: true"


def _front(tmp_path: Path, panel: str) -> set[str | int | float | bool | None]:
    file = file_of(tmp_path, panel)
    (of,) = file.figure.panels
    assert isinstance(of, Panel)
    return {v.series for v in draw.pareto(values.of(file, 0, of, [space()]))}


def test_a_front_goes_where_its_measure_is_better(tmp_path: Path) -> None:
    fast = _front(tmp_path, f"{FRONT}, y: bus_bandwidth_bytes_per_s")
    assert {"sram 512 KiB, fsms 3", "sram 2 MiB, fsms 24"} < fast
    assert _front(tmp_path, f"{FRONT}, y: time_s") == fast
    speedup = "relative_to: {endpoint.sram: 512KiB, endpoint.fsms: 3}"
    assert _front(tmp_path, f"{FRONT}, y: time_s, {speedup}, speedup: true") == fast
    assert _front(tmp_path, f"{FRONT}, y: time_s, {speedup}") == fast
    assert _front(tmp_path, f"{FRONT}, y: bus_bandwidth_bytes_per_s, {speedup}, speedup: true") == fast
    worst = _front(tmp_path, f"{FRONT}, y: time_s, y_better: more")
    assert worst != fast
    assert _front(tmp_path, f"{FRONT}, y: power_w") == {"sram 512 KiB, fsms 3"}
    assert _front(tmp_path, f"{FRONT}, y: time_s, x_better: more") == {"sram 4 MiB, fsms 24"}


@pytest.mark.parametrize(
    ("column", "better"),
    [
        *((name, "less") for name in ("time_s", "exposed_comm_share", "power_w", "energy_per_collective_j", "drops")),
        *((name, "less") for name in ("area_um2", "endpoint.fsms", "npu.memory_bandwidth_bytes_per_s", "sent_bytes")),
        *((name, "more") for name in ("bus_bandwidth_bytes_per_s", "efficiency", "memory_utilisation", "speedup")),
        *((name, "more") for name in ("collectives_per_s_per_mm2", "engine_utilisation_forward")),
        *((name, None) for name in ("collective.inflight", "workload.size_bytes", "chunks", "topology")),
    ],
)
def test_which_is_better_follows_from_the_measure(column: str, better: str | None) -> None:
    assert directions.of(column, [column] if "." in column else []) == better


def test_a_front_without_a_direction_is_refused(tmp_path: Path) -> None:
    rows = [{"base": "b", "variant": "v", "status": "done", "steps_of": 2, "time_s": 1.0}]
    panel = "kind: scatter, x: steps_of, y: time_s, each: [base], pareto: true"
    for more, is_known in (("", False), (", x_better: less", True)):
        file = file_of(tmp_path, panel + more)
        (of,) = file.figure.panels
        assert isinstance(of, Panel)
        if is_known:
            assert len(values.of(file, 0, of, [table.of_rows(rows, ())]).values) == 1
            continue
        with pytest.raises(InputError, match="less or more of steps_of is better does not follow") as error:
            values.of(file, 0, of, [table.of_rows(rows, ())])
        assert error.value.problems[0].accepted == "x_better: less, or x_better: more, beside it"


@pytest.mark.parametrize(
    ("y", "measure"),
    [
        ("iteration_time_s, speedup: true", "speed-up"),
        ("exposed_comm_s, speedup: true", "speed-up by exposed communication"),
        ("iteration_time_s", "relative iteration time"),
        ("iteration_time_s, speedup: true, y_label: gain", "gain"),
    ],
)
def test_a_speed_up_is_called_so(tmp_path: Path, y: str, measure: str) -> None:
    panel = f"kind: bars, x: endpoint.fsms, mean: true, relative_to: {{variant: Slow}}, y: {y}"
    (found,) = shown(file_of(tmp_path, panel))
    _, (axes,) = draw.drawing(file_of(tmp_path, panel).figure, [found])
    assert (found.measure, axes.get_ylabel().replace("\n", " ")) == (measure, measure)


def test_points_of_a_scatter_with_other_x_are_others(tmp_path: Path) -> None:
    file = file_of(tmp_path, "kind: scatter, x: power_w, y: time_s, series: endpoint.sram, each: [endpoint.fsms]")
    (of,) = file.figure.panels
    assert isinstance(of, Panel)
    found = values.of(file, 0, of, [space()])
    assert len(found.values) == 16
    assert {v.series for v in found.values} >= {"sram 512 KiB, fsms 3", "sram 4 MiB, fsms 24"}
    alone = of.model_copy(update={"series": None})
    assert len(values.of(file, 0, alone, [space()]).values) == 16


def test_all_columns_that_there_are_not_are_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        _shown(tmp_path, "kind: scatter, x: area_um, y: iteration_tim, each: [endpoint.fsmz], where: {varian: Slow}")
    assert {problem.field for problem in error.value.problems} == {
        f"panels.0.{key}" for key in ("x", "y", "each", "where")
    }
