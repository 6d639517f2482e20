"""Circles among Rust modules, in crates made up for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from lab import rust_modules

Circles = Callable[[Mapping[str, str]], dict[str, list[list[str]]]]


@pytest.fixture
def circles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Circles:
    """The circles of a crate `toy` with these files."""
    monkeypatch.setattr(rust_modules, "ROOT", tmp_path)

    def found(files: Mapping[str, str]) -> dict[str, list[list[str]]]:
        for name, text in files.items():
            path = tmp_path / "crates/toy/src" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return rust_modules.all_circles()

    return found


def test_two_siblings_in_a_circle_are_reported(circles: Circles) -> None:
    files = {"lib.rs": "mod a;\nmod b;\n", "a.rs": "use crate::b::B;\n", "b.rs": "fn f() {\n    super::a::f();\n}\n"}
    assert circles(files) == {"toy": [["a", "b"]]}


def test_cousins_in_a_circle_are_reported(circles: Circles) -> None:
    files = {
        "lib.rs": "mod a;\nmod b;\n",
        "a/mod.rs": "mod inner;\n",
        "a/inner.rs": "use crate::{b::{B, inner::C}, error::E};\n",
        "b.rs": "mod inner;\n",
        "b/inner.rs": "use crate::a::inner::A;\n",
    }
    assert circles(files) == {"toy": [["a::inner", "b::inner"]]}


def test_a_child_and_its_parent_are_none(circles: Circles) -> None:
    files = {"lib.rs": "mod a;\n", "a/mod.rs": "mod inner;\nuse inner::I;\n", "a/inner.rs": "use super::A;\n"}
    assert circles(files) == {}


def test_comments_texts_and_tests_use_nothing(circles: Circles) -> None:
    b = '// crate::a\nconst B: &str = "crate::a";\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n'
    assert circles({"lib.rs": "mod a;\nmod b;\n", "a.rs": "use crate::b::B;\n", "b.rs": b}) == {}


def test_a_use_under_another_name_is_a_use(circles: Circles) -> None:
    files = {
        "lib.rs": "mod a;\nmod b;\n",
        "a.rs": "use crate::{b as other, c};\n",
        "b.rs": "use crate::a::{self as x};\n",
    }
    assert circles(files) == {"toy": [["a", "b"]]}


def test_what_only_tests_use_hides_nothing_behind_it(circles: Circles) -> None:
    b = "#[cfg(test)]\nuse std::fs;\nuse crate::a::A;\n#[cfg(test)]\nmod tests {}\n"
    assert circles({"lib.rs": "mod a;\nmod b;\n", "a.rs": "use crate::b::B;\n", "b.rs": b}) == {"toy": [["a", "b"]]}
