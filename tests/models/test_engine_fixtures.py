"""Models of the package in the tests of the engine, which read them from files."""

from __future__ import annotations

from support.engine_fixtures import FOLDER, fixtures, written


def test_fixtures_of_the_engine_are_the_models_of_the_package() -> None:
    """If a model changes on purpose, `python -m tests.support.engine_fixtures` writes them again."""
    for name, workload in fixtures().items():
        assert (FOLDER / name).read_text() == written(workload), name
    assert {file.name for file in FOLDER.glob("*.json")} == set(fixtures())
