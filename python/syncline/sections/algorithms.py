"""The algorithms of `collective.algorithm`: what each is, in a phrase that the field, and `syncline list`, show."""

from __future__ import annotations

from typing import Final, Literal, get_args

Algorithm = Literal[
    "ring",
    "ring-unidirectional",
    "direct",
    "halving-doubling",
    "double-binary-tree",
    "one-hop-trees",
    "in-switch",
    "hierarchical",
    "hierarchical-optimal",
    "ace-4-phase",
    "six-phase",
    "themis",
    "packed-trees",
    "auto",
]
NAMES: Final[tuple[str, ...]] = get_args(Algorithm)
MEANINGS: Final[dict[str, str]] = {
    "ring": "rings, along one dimension of a product after the other, or through the whole group on other fabrics",
    "ring-unidirectional": "`ring` with `lanes: one`, whatever `lanes` says",
    "direct": "every rank sends to every other at once",
    "halving-doubling": "partners at distances that halve, then double, on the whole group",
    "double-binary-tree": "two complementary binary trees with half of the data each, on the whole group",
    "one-hop-trees": "a tree of one hop for each rank and its part of the data, on the whole group",
    "in-switch": "switches reduce and copy, along one dimension after the other; needs the endpoint `switch-offload`",
    "hierarchical": "over dimensions, or servers and their GPUs: an all-reduce in one after the other, each with the "
    "algorithm that suits it",
    "hierarchical-optimal": "another name of `ace-4-phase`",
    "ace-4-phase": "over dimensions: reduce-scatter in the first, all-reduce in the others, all-gather in the first",
    "six-phase": "over dimensions: reduce-scatter in every one, then all-gather in reverse order",
    "themis": "`six-phase`, but each chunk goes through the dimensions in the order that balances their load, and of "
    "the chunks that wait for a port the shortest goes first; this needs some hundred chunks",
    "packed-trees": "spanning trees that use all links of a machine, as `syncline trees` finds them",
    "auto": "tries these, and takes the fastest",
}
_EACH: Final = "; ".join(f"`{name}`: {says}" for name, says in MEANINGS.items())
DESCRIPTION: Final = f"How ranks work together. {_EACH}."
"""What the field says of itself."""
