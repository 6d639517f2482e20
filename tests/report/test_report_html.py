"""The page as text: complete, escaped, small, the same for the same input, and tolerant."""

from __future__ import annotations

import base64
import copy
import json
import re
import zlib
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import plotly.offline
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.pages import charts_of, check_page
from syncline.core import facts
from syncline.report import charts, charts_heat, declared, html, packed
from syncline.report.headline import headline
from syncline.results import units
from syncline.results.series import merge, merged_count, windows
from syncline.results.study import read

COMMAND = "syncline run study.yaml --seed 1"
ATTACK = "<script>alert('layer')</script>"
SECTIONS = ["headline", "why", "utilisation", "layers", "ace", "links", "collectives", "facts"]


def test_a_whole_study(study: Any) -> None:
    document, variants = study
    page = html.build(document, variants, COMMAND)
    reader = check_page(page)
    assert [i for i in reader.ids if i in SECTIONS] == SECTIONS
    text = " ".join("".join(reader.text).split())
    fsms = ("FSMs of the phases", "reduce-scatter dim 044", "all-reduce dim 242")
    for expected in (COMMAND, "ACE is the fastest", "0.1.0", "Torus(4, 8, 4)", "4 MB <declared>", *fsms):
        assert expected in text
    assert len(page.encode()) < 6_000_000
    assert set(charts_of(page)) == {
        "chart-breakdown",
        "chart-utilisation",
        "chart-ace-3",
        "chart-partitions-3",
        "chart-links",
        *(f"chart-heat-{i}" for i in range(5)),
    }
    assert page == html.build(document, variants, COMMAND)


def test_the_wait_after_the_last_kernel(make_study: Any) -> None:
    document, variants = make_study(50, ["ACE", "Ideal"])
    heading = facts.field("drain_ps").meaning
    assert heading not in html.build(document, variants, COMMAND)
    document["runs"][0]["drain_s"] = document["runs"][0]["total_time_s"] / 4
    document["runs"][0]["exposed_comm_s"] = 0.0
    page = html.build(document, variants, COMMAND)
    assert heading in page
    labels = [trace["name"] for trace in charts_of(page)["chart-breakdown"]["data"]]
    assert "waiting after the last kernel" in labels


def test_where_chunks_and_messages_spend_their_time(make_study: Any) -> None:
    document, variants = make_study(50, ["ACE", "Ideal"])
    kept = html.build(document, variants, COMMAND)
    assert "No endpoint of this study reports where chunks" in kept
    spent = {"chunk_queue_s": 3e-6, "bus_queue_s": None, "bus_transfer_s": 2.5e-7, "network_s": 0.0}
    document["runs"][0]["endpoint"]["breakdown"] = {"chunks": 2, "messages": 4, **spent}
    text = " ".join("".join(check_page(html.build(document, variants, COMMAND)).text).split())
    assert declared.row("endpoint.breakdown.chunk_queue_ps") in text
    assert declared.row("endpoint.breakdown.bus_transfer_ps") in text
    assert declared.row("endpoint.breakdown.bus_queue_ps") not in text  # no variant has any


def test_names_cannot_break_out(make_study: Any) -> None:
    document, variants = make_study(50, ["ACE", "Ideal"])
    name = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
    document["runs"][0]["name"] = name
    document["name"] = document["topology"] = ATTACK
    page = html.build(document, {name: variants["ACE"], "Ideal": variants["Ideal"]}, ATTACK)
    reader = check_page(page)
    assert "<img" not in page.split("<body>")[1].split('id="charts"')[0]
    assert name in "".join(reader.text)
    for figure in charts_of(page).values():
        assert "<script" not in json.dumps(figure)


def test_bars_add_up_to_the_iteration(study: Any) -> None:
    document, variants = study
    figure = charts_of(html.build(document, variants, COMMAND))["chart-breakdown"]
    for i, run in enumerate(document["runs"]):
        total_ms = sum(trace["x"][i] for trace in figure["data"])
        assert total_ms == pytest.approx(run["iteration_time_s"] * 1e3, rel=1e-4)


def test_headline_states_speed_up_and_share_of_ideal(study: Any) -> None:
    document, variants = study
    text = headline(read(document, variants))
    times = {r["name"]: r["iteration_time_s"] for r in document["runs"]}
    gain = times["BaselineNoOverlap"] / times["ACE"]
    assert f"{gain:.2f}\u00d7 as fast as the baseline BaselineNoOverlap" in text
    assert f"{100 * times['Ideal'] / times['ACE']:.1f} % of the performance of Ideal" in text


def test_a_tie_is_called_a_tie() -> None:
    runs = [{"name": n, "iteration_time_s": 1e-3, "iterations": 2} for n in ("A", "B")]
    assert headline(read({"runs": runs}, {})) == ("A and B are equally fast with 1.000 ms per iteration.")


@given(st.permutations([1, 2.2, 5.7, 9.1]), st.sampled_from("ABCD"))
def test_a_variant_is_as_many_times_as_fast_as_its_time_goes_into_the_other(
    milliseconds: list[float], baseline: str
) -> None:
    """Whichever is the baseline, the fastest one included: then the second is said to be slower than it."""
    times = dict(zip("ABCD", milliseconds, strict=True))
    runs = [{"name": name, "iteration_time_s": time / 1e3, "iterations": 2} for name, time in times.items()]
    text = headline(read({"baseline": baseline, "runs": runs}, {}))
    best, second, *_ = sorted(times, key=times.__getitem__)
    assert text.startswith(f"{best} is the fastest with 1.000 ms per iteration, ")
    (said,) = re.findall(r"([0-9.]+)\u00d7 as fast", text)
    compared = second if baseline == best else best
    assert float(said) == pytest.approx(times[baseline] / times[compared], abs=0.005)
    assert (f"; {second} is {said}" in text) == (baseline == best)


def test_nothing_is_called_faster_than_a_bound_that_is_the_baseline() -> None:
    times = {"Ideal": 1.438e-3, "SMs": 1.9e-3, "Engine": 1.578e-3}
    runs = [{"name": name, "iteration_time_s": time, "iterations": 2} for name, time in times.items()]
    assert headline(read({"baseline": "Ideal", "runs": runs}, {})) == (
        "Engine comes closest to the baseline Ideal with 1.578 ms per iteration against 1.438 ms; "
        "it reaches 91.1 % of the performance of Ideal."
    )
    runs[0]["iteration_time_s"] = 1.6e-3
    assert "Engine is the fastest" in headline(read({"baseline": "Ideal", "runs": runs}, {}))


def test_a_single_collective_without_layers(make_table: Any) -> None:
    document = {"status": "complete", "time_s": 1.5e-3, "size_bytes": 64e6, "name": "all-reduce"}
    tables = {
        "collectives": make_table(
            "id layer pass iteration kind bytes chunks issued_ps started_ps completed_ps exposed_ps",
            [[0, "", "", 0, "all_reduce", 64_000_000, 128, 0, 10, 1_500_000_000, 0]],
        )
    }
    page = html.build(document, {"all-reduce": tables}, COMMAND)
    text = "".join(check_page(page).text)
    assert "all-reduce takes 1.500 ms in total" in text
    assert "no layers" in text
    assert "42.67" in text, "size over time in GB/s"
    assert "chart-breakdown" in charts_of(page)


def drop_tables(_document: dict[str, Any], variants: dict[str, Any]) -> None:
    for name in variants:
        variants[name] = {}


def empty_tables(_document: dict[str, Any], variants: dict[str, Any]) -> None:
    for tables in variants.values():
        for name, table in tables.items():
            tables[name] = table.slice(0, 0)


def drop_runs(document: dict[str, Any], _variants: dict[str, Any]) -> None:
    del document["runs"]


def drop_document(document: dict[str, Any], _variants: dict[str, Any]) -> None:
    document.clear()


def drop_everything(document: dict[str, Any], variants: dict[str, Any]) -> None:
    document.clear()
    variants.clear()


def zero_numbers(document: dict[str, Any], _variants: dict[str, Any]) -> None:
    for run in document["runs"]:
        for key, value in run.items():
            if isinstance(value, (int, float)):
                run[key] = 0
        run["exposed_by_collective"] = []


def null_numbers(document: dict[str, Any], _variants: dict[str, Any]) -> None:
    for run in document["runs"]:
        for key, value in run.items():
            run[key] = value if key == "name" else None


def one_window(_document: dict[str, Any], variants: dict[str, Any]) -> None:
    for tables in variants.values():
        tables["windows"] = tables["windows"].slice(0, 1)


def partial(document: dict[str, Any], variants: dict[str, Any]) -> None:
    document["status"] = "partial"
    variants.pop("ACE")


@pytest.mark.parametrize(
    "change",
    [
        drop_tables,
        empty_tables,
        drop_runs,
        drop_document,
        drop_everything,
        zero_numbers,
        null_numbers,
        one_window,
        partial,
    ],
)
def test_degenerate_studies_make_valid_pages(make_study: Any, change: Callable[..., None]) -> None:
    document, variants = make_study(40)
    change(document, variants)
    page = html.build(document, variants, COMMAND)
    text = "".join(check_page(page).text)
    assert "nan" not in text.lower().split()
    if change in (drop_tables, empty_tables, drop_everything):
        assert 'class="note"' in page
        assert "chart-utilisation" not in charts_of(page)
    if change is one_window:
        lines = charts_of(page)["chart-utilisation"]["data"]
        assert all(len(line["y"]) == 2 for line in lines), "a step as wide as its window"


def test_one_variant(make_study: Any) -> None:
    document, variants = make_study(40, ["ACE"])
    page = html.build(document, variants, COMMAND)
    text = "".join(check_page(page).text)
    assert "ACE takes 3.202 ms per iteration" in text
    assert 'data-variant="1"' not in page


def test_no_exposed_time_has_a_note(make_study: Any) -> None:
    document, variants = make_study(40, ["Ideal"])
    document["runs"][0] |= {"exposed_comm_s": 0.0, "exposed_by_collective": []}
    assert "No communication is exposed" in html.build(document, variants, COMMAND)


def test_many_variants_stay_small(make_study: Any) -> None:
    document, variants = make_study(5000, ["ACE"])
    runs, tables = [], {}
    for i in range(20):
        run = copy.deepcopy(document["runs"][0])
        run["name"] = f"ACE {i}"
        runs.append(run)
        tables[run["name"]] = variants["ACE"]
    document["runs"] = runs
    assert len(html.build(document, tables, COMMAND).encode()) < 8_000_000


def test_windows_are_merged_into_means(study: Any) -> None:
    document, variants = study
    v = read(document, variants).variants[3]
    w = windows(v, ["compute"], 2000)
    assert w is not None
    assert w.merged == 3
    assert len(w.series["compute"]) == 1667 == len(w.edges_s) - 1
    whole = [x or 0.0 for x in v.numbers("windows", "compute")]
    assert w.series["compute"][0] == pytest.approx(sum(whole[:3]) / 3)
    assert w.edges_s[-1] == pytest.approx(v.total_s)


@given(st.lists(st.one_of(st.none(), st.floats(0, 1)), max_size=50), st.integers(1, 9))
def test_merging_keeps_range_and_length(values: list[float | None], count: int) -> None:
    merged = merge(values, count)
    assert len(merged) == -(-len(values) // count)
    known = [v for v in values if v is not None]
    for m in merged:
        assert m is None or min(known) - 1e-9 <= m <= max(known) + 1e-9


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "\u2013"),
        (0.0, "0.000 \u00b5s"),
        (3.2e-3, "3.200 ms"),
        (999.96e-6, "1.000 ms"),
        (12.34e-6, "12.34 \u00b5s"),
        (5e-12, "5.000 ps"),
        (90.0, "90.00 s"),
    ],
)
def test_times_have_human_units(value: float | None, text: str) -> None:
    assert units.time(value) == text


def test_small_numbers_of_a_column_are_not_called_zero() -> None:
    scale = units.time_scale([1e-3, 1e-9])
    assert scale.text(1e-9) == "<0.001"
    assert scale.text(0.0) == "0.000"


NUMBERS = st.one_of(st.none(), st.integers(0, 10**13), st.floats(0, 1e13))
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.floats(), st.integers(), st.text(max_size=12)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=8,
)
RUN_KEYS = [
    "name iteration_time_s total_time_s compute_time_s exposed_comm_s iterations endpoint network",
    "exposed_by_collective",
]


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=60, deadline=None)
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "runs": st.lists(st.dictionaries(st.sampled_from(" ".join(RUN_KEYS).split()), JSON), max_size=3),
            "warnings": JSON,
            "fidelity": JSON,
            "cost": JSON,
            "name": JSON,
        },
    )
)
def test_any_document_makes_a_page(document: dict[str, Any]) -> None:
    check_page(html.build(document, {}, COMMAND))


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.text(max_size=8), *[NUMBERS] * 3), max_size=6))
def test_odd_tables_make_a_page(make_table: Any, rows: list[tuple[Any, ...]]) -> None:
    numbers = [[r[0], *(None if x is None else float(x) for x in r[1:])] for r in rows]
    tables = {
        "layers": make_table("layer forward_ps exposed_ps params", numbers),
        "collectives": make_table("layer issued_ps completed_ps bytes", numbers),
        "links": make_table("port node bytes busy_ps", numbers),
        "resources": make_table("resource busy_ps wait_ps served", numbers),
        "windows": make_table("text start_ps compute links", numbers),
    }
    run = {"name": "x", "total_time_s": 1.0, "iterations": 1}
    check_page(html.build({"runs": [run]}, {"x": tables}, COMMAND))


def test_classes_of_links_go_by_their_names(make_table: Any) -> None:
    """Class 0 of one variant is not class 0 of another."""
    columns = "node copies port dim bytes busy_ps"
    links = {
        "cluster": make_table(columns, [[0, 1, "a", 0, 10, 5], [0, 1, "b", 1, 20, 6]]),
        "torus": make_table(columns, [[0, 1, "a", 0, 30, 7]]),
    }
    classes = {"cluster": ["NVLink", "PCIe"], "torus": ["dim 0"]}
    runs = [{"name": n, "time_s": 1e-11, "link_classes": classes[n]} for n in links]
    windows = make_table("window start_ps compute links link_dim0", [[0, 0, 0.0, 0.5, 0.5]])
    tables = {name: {"links": table, "windows": windows} for name, table in links.items()}
    study = read({"runs": runs}, tables)
    bars = charts.link_bars(study)
    assert bars is not None
    named = {t["name"]: (t["x"], t["y"]) for t in bars["data"] if t["showlegend"]}
    assert {name: (x, round(y[0])) for name, (x, y) in named.items()} == {
        "NVLink": ([50], 0),
        "PCIe": ([60], 0),
        "dim 0": ([70], 1),
    }
    assert charts.link_options(study) == ["all", "NVLink", "dim 0"]
    drawn = charts.utilisation(study)
    assert drawn is not None
    explained = [t["meta"]["option"] for t in drawn["data"] if t["meta"].get("explains")]
    assert sorted(explained) == ["NVLink", "all", "dim 0"]


LINKS = st.lists(
    st.tuples(
        st.integers(0, 1300), st.integers(1, 3), st.sampled_from("abc"), st.integers(0, 2), *[st.integers(0, 5)] * 2
    ),
    min_size=1,
    max_size=40,
    unique_by=lambda row: (row[0], row[2]),
)


@settings(max_examples=60, deadline=None)
@given(LINKS)
def test_links_are_shown_as_one_by_one(make_table: Any, rows: list[tuple[Any, ...]]) -> None:
    """Links that are alike are counted together, and neighbours in the map are merged, by the table's own means."""
    table = make_table("node copies port dim bytes busy_ps", rows)
    (variant,) = read({"runs": [{"name": "x", "total_time_s": 8e-12}]}, {"x": {"links": table}}).variants
    single = sorted((dim, size, busy / 8) for _, copies, _, dim, size, busy in rows for _ in range(copies))
    loads = [(dim, load) for dim, group in variant.link_loads.items() for load in group]
    assert sorted((dim, x.size, x.busy) for dim, x in loads for _ in range(x.copies)) == single
    with patch.object(charts_heat, "MAX_HEAT_COLUMNS", 8):
        drawn = charts_heat.heat(variant, {charts_heat.BUSY: 1.0})
    busy = {(port, node): 100 * busy_ps / 8 for node, _, port, _, _, busy_ps in rows}
    if not any(busy.values()):
        assert drawn is None
        return
    assert drawn is not None
    (cells,) = drawn["data"]
    nodes = sorted({row[0] for row in rows})
    count = merged_count(len(nodes), 8)
    for label, line in zip(cells["text"], cells["z"], strict=True):
        expected = merge([busy.get((label[0], node)) for node in nodes], count)
        assert [x is None for x in line] == [x is None for x in expected]
        assert [x or 0 for x in line] == pytest.approx([x or 0 for x in expected], rel=1e-2)


def test_layers_are_per_iteration_and_add_up(make_study: Any) -> None:
    document, variants = make_study()
    for run in document["runs"]:
        run |= {"iterations": 2, "compute_time_s": 3e-3, "exposed_comm_s": 1e-3, "iteration_time_s": 2e-3}
        layers = variants[run["name"]]["layers"]
        count = layers.num_rows
        sums = {"compute_ps": 3 * 10**9, "exposed_ps": 10**9, "collectives": 2 * count, "comm_bytes": 2 * 10**6}
        each = {name: total // count for name, total in sums.items()}
        for name, value in each.items():
            column = pa.array([value] * count)
            place = layers.column_names.index(name) if name in layers.column_names else None
            layers = layers.append_column(name, column) if place is None else layers.set_column(place, name, column)
        variants[run["name"]]["layers"] = layers
    page = html.build(document, variants, "syncline run")
    assert "means of 2 iterations: 1.500 ms of compute and 0.500 ms exposed, as in the headline" in page
    foot = page[page.index('data-table="layers-0"') :]
    foot = foot[foot.index("<tfoot>") : foot.index("</tfoot>")]
    cells = re.findall(r"<td[^>]*>(?:<span[^>]*></span>)?([^<]*)", foot)
    assert any(cell.startswith("1,500") for cell in cells)
    assert cells[-1].startswith("500")


def test_classes_and_jobs_are_in_tables(make_study: Any) -> None:
    document, variants = make_study(50, ["ACE", "Ideal"])
    plain = html.build(document, variants, COMMAND)
    assert "Classes of NPUs" not in plain
    assert "<h3>Jobs</h3>" not in plain
    stage = {
        "npus": 16,
        "total_s": 4e-3,
        "compute_s": 2e-3,
        "exposed_s": 0.0,
        "background_wait_s": 0.0,
        "drain_s": 1e-3,
    }
    document["runs"][0]["bubble_s"] = 1e-3
    document["runs"][0]["classes"] = [
        {"name": "first", **stage, "bubble_s": 0.0},
        {"name": ATTACK, **stage, "bubble_s": 1e-3},
        {"name": "of old"},
    ]
    job = {"name": "one", "iteration_time_s": 2e-3, "iteration_time_alone_s": 1e-3, "slowdown": 2.0}
    document["runs"][0]["jobs"] = [job, {"name": "of old"}, "no job"]
    page = html.build(document, variants, COMMAND)
    text = " ".join("".join(check_page(page).text).split())
    assert facts.field("bubble_ps").meaning in page
    # Nobody is exposed and nothing is in the background: these columns are left out.
    assert "variantclassNPUstotal mscompute msbubble msdrain ms" in text
    assert "ACEfirst164.0002.0000.0001.000" in text
    assert units.factor(2.0) in text
    assert ATTACK not in page


def test_a_page_of_the_whole_study_is_below_two_megabytes(study: Any) -> None:
    document, variants = study
    assert len(html.build(document, variants, COMMAND).encode()) < 2_000_000


def test_what_is_left_out_of_plotly_is_found_in_this_version_of_it() -> None:
    whole = plotly.offline.get_plotlyjs()
    slim = packed.slim(whole)
    assert len(slim) < len(whole) - 2_000_000
    assert "Licensed under the MIT license" in slim[:300]
    assert packed.slim("nothing of plotly") == "nothing of plotly", "another version stays whole"
    assert zlib.decompress(base64.b64decode(packed.packed("\u00e9"))).decode() == "\u00e9"
