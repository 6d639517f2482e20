"""Tables of results: what they say of themselves, alone and as data frames."""

from __future__ import annotations

from typing import Any, Final

import pytest

import syncline
from support.experiments import SMALL_GPT

RING: Final[dict[str, Any]] = {
    "topology": "Ring(4)",
    "workload": {"collective": "all-reduce", "size": "64KiB"},
    "network": "analytical",
}
MODEL: Final[dict[str, Any]] = {
    **SMALL_GPT,
    "variants": [{"name": "large"}, {"name": "small", "npu": {"memory": "1GB"}}],
}


def test_a_data_frame_keeps_units_and_meanings() -> None:
    pytest.importorskip("pandas")
    table = syncline.run(RING).systems["experiment"].tables["collectives"]
    attrs = table.to_pandas().attrs
    assert attrs["units"]["issued_ps"] == table.columns["issued_ps"]["unit"] == "ps"
    assert attrs["meanings"]["issued_ps"] == table.columns["issued_ps"]["meaning"]
    assert attrs["units"].keys() == table.columns.keys()


def test_the_tables_of_a_system_show_themselves() -> None:
    tables = syncline.run(RING).systems["experiment"].tables
    shown = tables._repr_html_()
    for name, table in tables.items():
        columns = ", ".join(table.columns)
        cells = [f"{len(table):,}", columns]
        assert f'>{name}</th><td style="text-align: right">{cells[0]}</td>' in shown
        assert f">{columns}</td>" in shown


def test_a_fit_says_how_many_divisions_fit_and_has_one_table_of_all() -> None:
    found = syncline.fit(MODEL, every=True)
    counts = ", ".join(f"{name} {found.fitting[name]} of {found.candidates[name]} divisions" for name in found.tables)
    assert repr(found) == f"<Fit gpt: {counts} fit>"
    arrow = found.table.to_arrow()
    assert arrow.column_names == ["variant", *found.tables["large"].to_arrow().column_names]
    assert arrow.column("variant").to_pylist() == [
        name for name, table in found.tables.items() for _ in range(len(table))
    ]
    assert found.table.columns["memory_bytes"] == {"unit": "B"}
    alone = syncline.fit({key: value for key, value in MODEL.items() if key != "variants"})
    assert repr(alone) == f"<Fit gpt: {alone.fitting['gpt']} of {alone.candidates['gpt']} divisions fit>"
