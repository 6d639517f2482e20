"""What users rely on changes on purpose, or not at all."""

from __future__ import annotations

import difflib
import re
from pathlib import Path

import pytest

import public_surface
from syncline.commands import catalogue

WHAT_TO_DO = """What is public has changed. If that is intended:
  * a new name: say in CHANGELOG.md what it is;
  * a name that is gone or has another one: say so in CHANGELOG.md;
  * a field of a document that is gone, or means something else: raise SCHEMA_VERSION in syncline/_version.py, too;
  * then: .venv/bin/python -m tests.public_surface --write"""


def test_what_is_public_is_as_it_was() -> None:
    was, now = (text.splitlines() for text in (public_surface.FILE.read_text(), public_surface.text()))
    if was != now:
        changes = "\n".join(difflib.unified_diff(was, now, "before", "now", lineterm="", n=0))
        pytest.fail(f"{WHAT_TO_DO}\n\n{changes}", pytrace=False)


def test_everything_public_is_there() -> None:
    text = public_surface.FILE.read_text()
    for name in catalogue.SCHEMAS:
        assert re.search(rf"^{name}: ", text, re.MULTILINE), name
    assert Path(public_surface.FILE).stat().st_size < 100_000
