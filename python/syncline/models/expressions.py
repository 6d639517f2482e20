"""Expressions of integers in model files, such as `4 * hidden` or `2 if stage > 0 and block == 0 else 1`.

Python's grammar is read, and only what is listed here is evaluated: whole numbers, names, `+ - * // % **`, `/` where
it leaves nothing over, comparisons and `and`, `or`, `not`, which give 0 or 1, `a if b else c`, and the functions `min`,
`max` and `choose`, whose first argument, counted from 0, says which of the others is meant. Every number on the way has
at most 63 bits.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from syncline.base.errors import did_you_mean, one_of

ACCEPTED: Final = (
    "a whole number, or an expression of whole numbers and names: + - * / // % **, comparisons, and, or, not, "
    "a if b else c, min(...), max(...), choose(i, first, second, ...)"
)
MOST: Final = 2**63 - 1
"""The largest number, and the negated smallest."""
MOST_LETTERS: Final = 400
MOST_DEPTH: Final = 40
MOST_POWER: Final = 63

_LETTERS: Final = re.compile(r"[A-Za-z0-9_+\-*/%<>=!(), ]*", re.ASCII)
_NUMBER_WITH_LETTERS: Final = re.compile(r"\b[0-9]+[A-Za-z_]", re.ASCII)

Values = Mapping[str, int]


class ExpressionError(ValueError):
    """An expression that is none, or that has no value."""

    def __init__(self, message: str, accepted: str | None = None) -> None:
        super().__init__(message)
        self.message, self.accepted = message, accepted


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression that has been read."""

    text: str
    names: frozenset[str]
    """What its value depends on."""
    _value: Callable[[Values], int]

    def __reduce__(self) -> tuple[Callable[[object], Expression], tuple[str]]:
        """Sent to other processes as text."""
        return read, (self.text,)

    def value(self, values: Values) -> int:
        """Its value where names have these. Raises [`ExpressionError`] if there is none."""
        try:
            return self._value(values)
        except ExpressionError as error:
            known = sorted(name for name in self.names if name in values)
            if not known or isinstance(error, _UnknownNameError):
                raise
            where = one_of(f"{name} = {values[name]}" for name in known)
            raise ExpressionError(f"{error.message} (with {where})", error.accepted) from None


class _UnknownNameError(ExpressionError):
    """A name that nothing has."""


def read(given: object) -> Expression:
    """An expression from the value of a YAML scalar. Raises [`ExpressionError`]."""
    if isinstance(given, bool):
        return _constant(int(given))
    if isinstance(given, int):
        return _constant(_bounded(given))
    if not isinstance(given, str):
        raise ExpressionError("this is no whole number", ACCEPTED)
    if len(given) > MOST_LETTERS:
        raise ExpressionError(f"an expression of more than {MOST_LETTERS} letters", ACCEPTED)
    if not _LETTERS.fullmatch(given) or _NUMBER_WITH_LETTERS.search(given):
        raise ExpressionError("this is no expression", ACCEPTED)
    try:
        tree = ast.parse(given.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ExpressionError("this is no expression", ACCEPTED) from None
    names: set[str] = set()
    value = _read(tree, names, 0)
    return Expression(given, frozenset(names), value)


def _constant(number: int) -> Expression:
    return Expression(str(number), frozenset(), lambda _: number)


def _bounded(number: int) -> int:
    if abs(number) > MOST:
        raise ExpressionError("a number of more than 63 bits", "numbers of up to 63 bits")
    return number


def _read(tree: ast.expr, names: set[str], depth: int) -> Callable[[Values], int]:
    """What computes the value of a part of an expression."""
    if depth > MOST_DEPTH:
        raise ExpressionError(f"an expression nested deeper than {MOST_DEPTH} levels", ACCEPTED)

    def part(of: ast.expr) -> Callable[[Values], int]:
        return _read(of, names, depth + 1)

    match tree:
        case ast.Constant(value=int() as number) if not isinstance(number, bool):
            _bounded(number)
            return lambda _: number
        case ast.Name(id=name):
            names.add(name)
            return lambda values: _named(name, values)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            compute, one, two = _BINARY[type(op)], part(left), part(right)
            return lambda values: _bounded(compute(one(values), two(values)))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            one = part(operand)
            return lambda values: -one(values)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            one = part(operand)
            return lambda values: int(not one(values))
        case ast.BoolOp(op=op, values=operands):
            parts = [part(operand) for operand in operands]
            decide = all if isinstance(op, ast.And) else any
            return lambda values: int(decide(each(values) for each in parts))
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARISONS:
            compare, one, two = _COMPARISONS[type(op)], part(left), part(right)
            return lambda values: int(compare(one(values), two(values)))
        case ast.IfExp(test=test, body=body, orelse=orelse):
            condition, one, two = part(test), part(body), part(orelse)
            return lambda values: one(values) if condition(values) else two(values)
        case ast.Call(func=ast.Name(id=name), args=[_, _, *_] as args, keywords=[]) if name in _FUNCTIONS:
            function, parts = _FUNCTIONS[name], [part(arg) for arg in args]
            return lambda values: function([each(values) for each in parts])
    raise ExpressionError("this is no expression of whole numbers", ACCEPTED)


def _named(name: str, values: Values) -> int:
    if name not in values:
        raise _UnknownNameError(f"nothing is named {name!r}{did_you_mean(name, values)}", f"the names {one_of(values)}")
    return values[name]


def _divided(one: int, two: int) -> int:
    if two == 0 or one % two:
        raise ExpressionError(f"{one} / {two} is no whole number", "a divisor, or // to round down")
    return one // two


def _rounded(one: int, two: int) -> int:
    if two == 0:
        raise ExpressionError(f"{one} // 0 has no value", "a divisor other than 0")
    return one // two


def _rest(one: int, two: int) -> int:
    if two == 0:
        raise ExpressionError(f"{one} % 0 has no value", "a divisor other than 0")
    return one % two


def _power(one: int, two: int) -> int:
    if not 0 <= two <= MOST_POWER:
        raise ExpressionError(f"the exponent {two}", f"exponents of 0 to {MOST_POWER}")
    power: int = one**two
    return power


def _chosen(args: list[int]) -> int:
    which, *choices = args
    if not 0 <= which < len(choices):
        raise ExpressionError(f"number {which} of {len(choices)} choices", f"0 to {len(choices) - 1}")
    return choices[which]


_BINARY: Final[dict[type[ast.operator], Callable[[int, int], int]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: _divided,
    ast.FloorDiv: _rounded,
    ast.Mod: _rest,
    ast.Pow: _power,
}
_COMPARISONS: Final[dict[type[ast.cmpop], Callable[[int, int], bool]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_FUNCTIONS: Final[dict[str, Callable[[list[int]], int]]] = {"min": min, "max": max, "choose": _chosen}
