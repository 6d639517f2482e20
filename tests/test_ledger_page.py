"""The page of the ledger: its directives, its tables, and that the committed one is what the package writes."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import groupby, pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import syncline
from support.command import Ended
from syncline.base.errors import InputError
from syncline.studies.reproduction import confirm, experiments, explanations, ledger, page, sources
from syncline.studies.reproduction.explanations import Kind

Command = Callable[..., Ended]

COMMITTED = (Path(__file__).parents[1] / "docs" / "reproduction.md").read_text(encoding="utf-8")
QUICK_CLAIMS = (
    *("tutorial", "ace-analytic-memory", "ace-table4-area-power", "ace-fig4-contention", "ace-fig4b-dlrm"),
    *("ace1-fig5-analytical", "hoti-analytical", "hoti-dlrm-sizes", "hoti-steps"),
)
QUICK_EXPERIMENTS = (
    *("ace-fig4b-sms", "ace-anomalies", "tutorial-dimensions", "tutorial-local-links"),
    "hoti-injection-latency",
)
CELLS = re.compile(r"(?<!\\)\|")


def tables(text: str) -> list[list[str]]:
    """The tables of a page, line by line."""
    lines = ["", *text.splitlines(), ""]
    return [list(group) for starts, group in groupby(lines, lambda line: line.startswith("|")) if starts]


def test_the_committed_page_has_the_text_of_the_pieces() -> None:
    at = 0
    for _, text in page.pieces():
        for part in page.DIRECTIVE.split(text)[::3]:
            assert part in COMMITTED[at:]
            at = COMMITTED.index(part, at) + len(part)


def claim_rows() -> dict[str, list[str]]:
    """The cells of the committed page's claims, by name."""
    lines = [line for line in COMMITTED.splitlines() if re.match(r"\| `[a-z0-9-]+`, ", line)]
    return {line.split("`")[1]: [cell.strip() for cell in CELLS.split(line)[1:-1]] for line in lines}


def test_the_committed_page_has_every_claim_and_experiment_and_counts_them() -> None:
    rows = claim_rows()
    assert set(rows) == {claim.id for claim in ledger.claims()}
    verdicts = {name: cells[4] for name, cells in rows.items()}
    outside = {name for name, verdict in verdicts.items() if verdict != "inside"}
    assert f"{len(rows) - len(outside)} of {len(rows)} claims are inside" in COMMITTED
    assert explanations.counted([kind_on_page(verdicts[name]) for name in outside]) in COMMITTED
    every = experiments.load()
    for name in outside:
        named = {experiment.id for experiment in every if name in experiment.explains}
        links = re.findall(r"\[([a-z0-9-]+)\]\(#([a-z0-9-]+)\)", verdicts[name])
        assert all(text == target and text in named for text, target in links)
        assert bool(links) == bool(named)
    for experiment in every:
        assert COMMITTED.count(f'<a id="{experiment.id}"></a>') == 1


def kind_on_page(verdict: str) -> Kind:
    """How far a claim is explained that the committed page has outside its range."""
    found: dict[str, Kind] = {
        "not explained": "not",
        "; inside with": "inside",
        "brings in": "moved",
        "closes": "nearer",
    }
    return next(kind for text, kind in found.items() if text in verdict)


def test_the_fitted_constants_of_the_committed_page_have_the_values_of_their_claims() -> None:
    rows = claim_rows()
    fits = [line for line in tables(COMMITTED) if line[0].startswith("| constant |")]
    assert len(fits) == 4
    for line in (line for table in fits for line in table[2:]):
        _, _, _, claim, published, simulated, _ = (cell.strip() for cell in CELLS.split(line)[1:-1])
        assert rows[claim.strip("`")][1].startswith(published)
        assert rows[claim.strip("`")][2] == simulated


def test_the_committed_page_says_that_every_point_is_equal() -> None:
    for point in confirm.POINTS:
        assert re.search(rf"^\| {point.study} \| {re.escape(point.variant)} \|.*\| equal \|$", COMMITTED, re.MULTILINE)
    assert "DIFFERENT" not in COMMITTED


def test_every_table_of_the_committed_page_is_well_formed() -> None:
    found = tables(COMMITTED)
    assert len(found) > len(experiments.load())
    for table in found:
        assert len({len(CELLS.findall(line)) for line in table}) == 1
        assert set(table[1]) == set("|- ")
        assert len(table) > 2
    for before, after in pairwise(COMMITTED.splitlines()):
        if after.startswith("|") != before.startswith("|"):
            assert "" in (before, after)
    assert "{{" not in COMMITTED


@given(st.lists(st.lists(st.text() | st.text("|\\\n a"), min_size=3, max_size=3), min_size=1, max_size=4))
def test_whatever_cells_contain_a_row_stays_a_row(rows: list[list[str]]) -> None:
    lines = page.markdown(["a", "", "c"], rows).split("\n")
    assert len(lines) == len(rows) + 2
    for line in lines:
        assert line == " ".join(line.split())
        unescaped = line.replace("\\\\", "").replace("\\|", "")
        assert unescaped.count("|") == 4


def test_the_pieces_of_the_package_are_legal() -> None:
    page.check(experiments.load())


@pytest.mark.parametrize(
    ("directive", "message"),
    [
        ("{{experiment ace-fig4b-sm}}", "nothing is called 'ace-fig4b-sm'; did you mean 'ace-fig4b-sms'?"),
        ("{{simulated ace-fig4c}}", "nothing is called 'ace-fig4c'"),
        ("{{claims pink}}", "nothing is called 'pink'"),
        ("{{claim ace}}", "there is no such directive; did you mean 'claims'?"),
        ("{{simulated}}", "one name is needed"),
        ("{{inside ace}}", "nothing can be named here"),
        ("{{experiment ace-tiles}}", "{{experiment ace-tiles}} is there 2 times"),
    ],
)
def test_directives_that_cannot_be_followed_are_refused(tmp_path: Path, directive: str, message: str) -> None:
    for name, text in page.pieces():
        (tmp_path / name).write_text(text)
    page.check(experiments.load(), tmp_path)
    (tmp_path / "40-more.md").write_text(f"Some text.\n\n{directive}\n")
    with pytest.raises(InputError) as error:
        page.check(experiments.load(), tmp_path)
    assert any(message in problem.message for problem in error.value.problems)
    if "times" not in message:
        (problem,) = error.value.problems
        assert (problem.file, problem.line) == ("40-more.md", 3)
        assert problem.accepted


def test_experiments_that_are_not_on_the_page_are_refused(tmp_path: Path) -> None:
    for name, text in page.pieces():
        (tmp_path / name).write_text(text.replace("{{experiment ace-tiles}}", "").replace("{{confirmed}}", ""))
    with pytest.raises(InputError) as error:
        page.check(experiments.load(), tmp_path)
    assert [problem.message for problem in error.value.problems] == [
        "{{experiment ace-tiles}} is there 0 times",
        "{{confirmed}} is there 0 times",
    ]


def test_two_pages_are_equal(syncline_command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the sources and experiments that take no time: of the command, and of the function, with two simulations at
    once.
    """
    pieces = tmp_path / "pieces"
    pieces.mkdir()
    quick = [e for e in experiments.load() if e.id in QUICK_EXPERIMENTS]
    claims = ledger.select(QUICK_CLAIMS)
    monkeypatch.setattr(experiments, "load", lambda: quick)
    monkeypatch.setattr(ledger, "claims", lambda: claims)
    monkeypatch.setattr(confirm, "POINTS", [p for p in confirm.POINTS if p.study.startswith("tutorial/")])
    monkeypatch.setattr(page.render, "__defaults__", (pieces,))
    monkeypatch.setattr(page.check, "__defaults__", (pieces,))
    blocks = [f"{{{{claims {source}}}}}" for source in sources.SOURCES]
    blocks += [f"{{{{experiment {e.id}}}}}" for e in quick]
    (pieces / "a.md").write_text(
        "\n\n".join([*blocks, "{{confirmed}}", "{{inside}}: {{simulated ace-fig4b-dlrm}}", ""])
    )

    target = tmp_path / "page.md"
    ended = syncline_command("reproduce", "--write", str(target), "--threads", "1")
    assert (ended.status, ended.err) == (0, "")
    written = [target.read_text(), syncline.reproduce(experiments=True, threads=2).page()]
    assert written[0] == written[1]
    assert len(tables(written[0])) == len(sources.SOURCES) + len(quick) + 1
    assert f"{len(claims) - 1} of {len(claims)}: 2.19\n" in written[0]
    for table in tables(written[0])[: len(sources.SOURCES)]:
        assert set(table) <= set(COMMITTED.splitlines())
    for table in tables(written[0])[len(sources.SOURCES) : -1]:
        assert "\n".join(table) in COMMITTED


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (("ace", "--write", "page.md"), "CLAIM"),
        (("--write", "nowhere/page.md"), "--write"),
        (("--write", "."), "--write"),
    ],
)
@pytest.mark.usefixtures("fake_engine")
def test_a_page_that_cannot_be_written_is_refused_at_once(
    syncline_command: Command, arguments: tuple[str, ...], field: str
) -> None:
    ended = syncline_command("reproduce", *arguments)
    assert (ended.status, ended.out) == (2, "")
    assert f"command line: {field}: " in ended.err
    assert "accepted: " in ended.err
