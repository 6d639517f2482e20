"""What strategies have to know of kinds of operators (`crates/workload/src/described/kinds.rs`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from syncline.models.model import Axis, DivisionError, Operator

CORE: Final = "attention"
"""The core of attention: what sees all tokens of a sample, and what selective recomputation computes again."""
LOOKUPS: Final = frozenset({"embedding", "embedding-sum"})
"""What takes numbers of tokens: nothing has a gradient with respect to these."""
LOSS: Final = "softmax-cross-entropy"
LOSS_BYTES: Final = 4
"""Bytes of what vocabulary-parallel cross-entropy all-reduces for each token, three times: the largest logit, the one
that is wanted, and the sum of the exponentials (Shoeybi et al., "Megatron-LM", section 3, with a maximum beside)."""
LOSS_REDUCES: Final = 3
OUTPUTS: Final = "outputs"
"""The size of a linear operator by which its columns are divided, so that results are parts of rows."""
INPUTS: Final = "inputs"
"""The one by which its rows are divided, so that results are terms of a sum."""


def is_core(operator: Operator) -> bool:
    """Whether it is the core of attention."""
    return operator.kind == CORE


def of_context(operator: Operator, ways: int) -> Operator:
    """The part of one of so many NPUs that divide the tokens of samples: of attention, that to a block of keys.

    Raises [`DivisionError`] if tokens cannot be divided evenly.
    """
    names = ("queries", "keys") if is_core(operator) else ("rows",)
    sizes = dict(operator.sizes)
    for name in names:
        if name in sizes and ways > 1:
            if sizes[name] % ways:
                raise DivisionError(operator.name, name, sizes[name], ways, "context")
            sizes[name] //= ways
    return replace(operator, sizes=sizes)


def part(operator: Operator, ways: Mapping[Axis, int], context: int) -> Operator:
    """The part of one NPU. Raises [`DivisionError`]."""
    return of_context(operator.divided(ways), context)


def keys_and_values(operator: Operator) -> int:
    """Elements of the keys and the values of a core of attention."""
    sizes = operator.sizes
    heads = sizes.get("kv_heads", sizes["heads"])
    keys = sizes.get("keys", sizes["queries"])
    features = sizes["head_size"] + sizes.get("value_size", sizes["head_size"])
    return sizes["sequences"] * keys * heads * features


def bias_of_sum(operator: Operator) -> int:
    """Parameters of a bias that is added to the sum of what tensor-parallel NPUs have: all of them hold it."""
    sizes = operator.sizes
    return sizes.get("bias", 0) * sizes["outputs"] if operator.split.get("tensor") == INPUTS else 0


def loaded(operator: Operator, share: float) -> Operator:
    """An operator of experts that get this share of the tokens that they would get if all got as many."""
    if "rows" not in operator.sizes:
        return operator
    return replace(operator, sizes={**operator.sizes, "rows": max(1, round(operator.sizes["rows"] * share))})
