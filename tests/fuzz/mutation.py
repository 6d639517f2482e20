"""Values that nobody expects, and ways to damage texts, bytes and documents."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from random import Random
from typing import Any, Final

WORDS: Final = (
    *("", " ", "0", "1", "-1", "00", "1e309", "-0.0", "1e-320", "nan", ".inf", "null", "true", "on", "~", "[]", "{}"),
    *(
        "9" * 18,
        "9223372036854775807",
        "9223372036854775808",
        "9" * 400,
        "9" * 5000,  # Python converts 4,300 digits at most
        "1" + "0" * 30,
        "0x10",
        "1_000",
        "010",
        "1:30",
    ),
    *("0B", "1B", "1PB", "18446744073709551615B", "1e30B", "-1B", "0.5B", "64", "64 KiB", "64kib", "64MiBB"),
    *("0s", "1ps", "0.1ps", "9000000s", "1e12s", "500cycles", "1cycles@0Hz", "1cycles@1Hz", "5cycles@1GHz"),
    *("0B/s", "1B/s", "1Gb/s", "1e30GB/s", "25GB/s", "0%", "100%", "101%", "1e-9%", "120TFLOP/s", "1FLOP/s"),
    *("$", "\\frac", "$\\frac{1}{0}$", "{", "}", "{}", "%s", "%d%n", "<script>", "&amp;", "]]>", "'", '"', "\\", "`"),
    *("\u00e4", "\u4e2d\u6587", "\U0001f600", "\u202e", "\ufeff", "\u2028", "\x7f", "a" * 300, "../x", "/", "..", "\t"),
    *("Ring(4)", "resnet50", "ideal", "ace", "auto", "dgx1v", "0-3", "0,1", "0-1;2-3", "size 2", "stride 2", "name"),
)
NUMBERS: Final = (0, 1, -1, 2, 3, 7, 255, 256, 2**31 - 1, 2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64, 10**30)
FLOATS: Final = (0.0, -0.0, 0.5, -1.5, 1e-320, 1e-300, 1e300, 1e308, 1e29, float("nan"), float("inf"), -float("inf"))
CUTS: Final = (0, 0, 1, 1, 2, 5, 20, 100)


def value(chance: Random, depth: int = 0) -> Any:
    """A value that a document should not have there."""
    kind = chance.randrange(9 if depth < 3 else 7)
    if kind == 0:
        return None
    if kind == 1:
        return chance.choice((True, False))
    if kind == 2:
        return chance.choice(NUMBERS)
    if kind == 3:
        return chance.choice(FLOATS)
    if kind <= 5:
        return chance.choice(WORDS)
    if kind == 6:
        return chance.choice(("\ud800", "a\udfffb", "\x00", "\x1b[31m"))
    if kind == 7:
        return [value(chance, depth + 1) for _ in range(chance.randrange(4))]
    return {chance.choice(WORDS): value(chance, depth + 1) for _ in range(chance.randrange(4))}


def text(chance: Random, original: str, others: tuple[str, ...] = ()) -> str:
    """A text with a few changes: letters, words, lines; parts cut, doubled, moved, or from other texts."""
    for _ in range(chance.choice((1, 1, 1, 1, 2, 5))):
        original = _changed(chance, original, others)
    return original


def _changed(chance: Random, original: str, others: tuple[str, ...]) -> str:
    at = chance.randrange(len(original) + 1)
    until = min(len(original), at + chance.choice(CUTS))
    kind = chance.randrange(10)
    if kind == 0:
        return original[:at] + original[until:]
    if kind == 1:
        return original[:at] + original[at:until] * 2 + original[until:]
    if kind == 2:
        return original[:at] + chr(chance.choice((0, 9, 10, 32, 34, 39, 58, 123, 0x2028, 0x1F600))) + original[until:]
    if kind == 3:
        return original[:at]
    if kind == 4:
        lines = original.splitlines(keepends=True)
        chance.shuffle(lines)
        return "".join(lines[: chance.randrange(len(lines) + 1)]) if chance.random() < 0.3 else _lines(chance, original)
    if kind == 5 and others:
        other = chance.choice(others)
        begin = chance.randrange(len(other) + 1)
        return original[:at] + other[begin : begin + 40] + original[until:]
    if kind <= 7:
        return _number(chance, original)
    return _word(chance, original)


def _lines(chance: Random, original: str) -> str:
    lines = original.splitlines(keepends=True) or [""]
    i, j = chance.randrange(len(lines)), chance.randrange(len(lines))
    if chance.random() < 0.5:
        lines[i], lines[j] = lines[j], lines[i]
    else:
        lines[i:i] = [lines[j]]
    return "".join(lines)


def _runs(original: str, of: str) -> list[tuple[int, int]]:
    """Where runs of digits, or of letters, stand."""
    found: list[tuple[int, int]] = []
    begin: int | None = None
    for i, letter in enumerate([*original, " "]):
        inside = letter.isdigit() if of == "digits" else letter.isalnum() or letter in "_-/."
        if inside and begin is None:
            begin = i
        elif not inside and begin is not None:
            found.append((begin, i))
            begin = None
    return found


def _number(chance: Random, original: str) -> str:
    runs = _runs(original, "digits")
    if not runs:
        return original
    begin, end = chance.choice(runs)
    longest = "9" * chance.choice((20, 400, 5000))
    digits = chance.choice(
        (str(chance.choice(NUMBERS)), str(chance.randrange(1000)), original[begin:end] + "0", longest, "")
    )
    return original[:begin] + digits + original[end:]


def _word(chance: Random, original: str) -> str:
    runs = _runs(original, "words")
    if not runs:
        return original
    begin, end = chance.choice(runs)
    own = chance.choice(runs)
    word = original[slice(*own)] if chance.random() < 0.4 else chance.choice(WORDS)
    return original[:begin] + word + original[end:]


def data(chance: Random, original: bytes) -> bytes:
    """Bytes with a few changes."""
    found = bytearray(original)
    for _ in range(chance.choice((1, 1, 2, 4, 16))):
        at = chance.randrange(len(found) + 1)
        kind = chance.randrange(5)
        if kind == 0 and at < len(found):
            found[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            del found[at : at + chance.choice(CUTS)]
        elif kind == 2:
            found[at:at] = chance.randbytes(chance.choice((1, 4, 8)))
        elif kind == 3:
            found[at : at + 4] = chance.choice((b"\0\0\0\0", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0"))
        elif chance.random() < 0.2:
            del found[at:]
    return bytes(found)


def document(chance: Random, original: Any) -> Any:
    """A document with a few values replaced, removed, moved or doubled."""
    found = copy.deepcopy(original)
    for _ in range(chance.choice((1, 1, 1, 1, 3))):
        places = list(_places(found))
        if not places:
            return value(chance)
        holder, key = chance.choice(places)
        kind = chance.randrange(6)
        if kind == 0:
            del holder[key]
        elif kind == 1:
            other, its = chance.choice(places)
            holder[key] = copy.deepcopy(other[its])
        elif kind == 2 and isinstance(holder, list):
            holder.insert(key, copy.deepcopy(holder[key]))
        elif kind == 3 and isinstance(holder, dict):
            holder[chance.choice(WORDS)] = holder.pop(key)
        else:
            holder[key] = value(chance)
    return found


def _places(node: Any) -> Iterator[tuple[Any, Any]]:
    """Every entry of every mapping and list, as its holder and its key."""
    entries = list(node.items()) if isinstance(node, dict) else list(enumerate(node)) if isinstance(node, list) else []
    for key, entry in entries:
        yield node, key
        yield from _places(entry)
