"""Lists and ranges of sizes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncline.base.errors import InputError
from syncline.nccl import sizes

KIB = 1024


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1KiB:8KiB:x2", [KIB, 2 * KIB, 4 * KIB, 8 * KIB]),
        ("1KiB:7KiB:x2", [KIB, 2 * KIB, 4 * KIB]),
        ("1MiB:4MiB:+1MiB", [KIB * KIB * n for n in (1, 2, 3, 4)]),
        ("64MiB", [64 * KIB * KIB]),
        ("1KiB,4KiB", [KIB, 4 * KIB]),
        ("4KiB, 1KiB, 1KiB:4KiB:x2", [KIB, 2 * KIB, 4 * KIB]),
        ("100B:200B:x1.3", [100, 128, 168]),
        ("4B:4B:x2", [4]),
    ],
)
def test_what_is_read(text: str, expected: list[int]) -> None:
    assert list(sizes.parse(text)) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "a size is missing"),
        ("1KiB,", "a size is missing"),
        ("1024", "the unit is missing"),
        ("0B", "in 0B: "),
        ("6B", "in 6B: 6B is no whole number of elements"),
        ("2PiB", "in 2PiB: "),
        ("1KiB:2KiB", "a range consists of a first size, a last size, and a factor or a step"),
        ("8KiB:1KiB:x2", "the range runs backwards"),
        ("1KiB:8KiB:x1", "'x1' is neither a factor of 1.01 or more nor a step"),
        ("1KiB:8KiB:2", "'2' is neither a factor of 1.01 or more nor a step"),
        ("1KiB:8KiB:+0B", "in 1KiB:8KiB:+0B: "),
        ("4B:1GiB:+4B", "these are more than 4096 sizes"),
    ],
)
def test_refusals(text: str, reason: str) -> None:
    with pytest.raises(InputError) as caught:
        sizes.parse(text)
    assert reason in caught.value.problems[0].message
    assert caught.value.problems[0].accepted


def test_every_error_at_once() -> None:
    with pytest.raises(InputError) as caught:
        sizes.parse("1KiB,3,5B")
    assert len(caught.value.problems) == 2


@given(st.text(alphabet="0123456789.:,+xkKMGiB ", max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        found = sizes.parse(text)
    except InputError as error:
        assert error.problems
    else:
        assert list(found) == sorted(set(found))
        assert all(0 < size <= sizes.MAX_SIZE and size % sizes.ELEMENT_BYTES == 0 for size in found)
