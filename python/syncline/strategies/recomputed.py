"""Which operators of a block run again in the backward pass, where `parallel.recompute` is `operators`.

torchtitan  Everything but attention and every second matrix product, counted in order within a block, whose results
            are kept, as are those of reduce-scatters and all-to-alls (`_apply_op_sac` of torchtitan). Queries, keys
            and values are products of their own there, and so are both halves of what SwiGLU takes. What nothing
            needs any more is not computed again, as `torch.utils.checkpoint` stops early.
a list      Operators by module (`--recompute-modules` of Megatron-LM), kind or name, and all that is exchanged
            around them. What they return is not kept: it is computed again from what they take, which is, unless an
            operator before them computes it again. Attention runs again where its own backward pass begins, so that its
            result is kept for the product behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

from syncline.models.model import Layer, Model, Operator
from syncline.sections.parallel import TORCHTITAN, Parallel
from syncline.strategies.operators import CORE, is_core

NORMS: Final = frozenset({"layer-norm", "rms-norm"})
GATED: Final = frozenset({"swiglu", "geglu"})
ACTIVATIONS: Final = GATED | {"gelu", "silu", "relu", "tanh"}
PRODUCTS: Final = frozenset({"linear", "router"})
"""What torchtitan counts."""
ONLY_RESULTS: Final = frozenset(
    {"linear", "router", "experts", "add", "rotary", "gelu", "silu", "relu", "tanh", "combine"}
)
"""Kinds whose backward pass needs nothing that they compute beside their result: at the end of a block they need not
run again."""


@dataclass(frozen=True, slots=True)
class Again:
    """How much of an operator's result is kept, and how much is computed again; both may be none."""

    kept: Fraction
    runs: Fraction


KEPT: Final = Again(Fraction(1), Fraction(0))
REPEATED: Final = Again(Fraction(0), Fraction(1))


def of(layer: Layer, parallel: Parallel) -> tuple[Again, ...]:
    """What becomes of each operator of a layer."""
    if parallel.recompute != "operators" or not layer.block:
        return (KEPT,) * len(layer.operators)
    entries = parallel.recompute_operators
    if entries == TORCHTITAN:
        return tuple(_as_torchtitan(layer.operators))
    chosen = {number for entry in entries for number in _named(entry, layer.operators)}
    return tuple(REPEATED if number in chosen else KEPT for number in range(len(layer.operators)))


def is_torchtitan(parallel: Parallel) -> bool:
    """Whether results are kept as torchtitan keeps them."""
    return parallel.recompute == "operators" and parallel.recompute_operators == TORCHTITAN


def repeats_core(core: Operator, parallel: Parallel) -> bool:
    """Whether the core of attention is computed again."""
    if parallel.recompute == "selective":
        return True
    listed = parallel.recompute == "operators" and parallel.recompute_operators != TORCHTITAN
    return listed and not {"core_attn", CORE, core.name}.isdisjoint(parallel.recompute_operators)


def part(operator: Operator, runs: Fraction) -> Operator:
    """The part of an operator that is computed again: some columns of a product."""
    if runs == 1:
        return operator
    return replace(operator, sizes={**operator.sizes, "outputs": int(operator.sizes["outputs"] * runs)})


def unknown(model: Model, parallel: Parallel) -> Iterator[str]:
    """Entries that name no operator of any block."""
    if parallel.recompute != "operators" or is_torchtitan(parallel):
        return
    blocks = {id(layer.operators): layer.operators for layer in model.layers if layer.block}.values()
    for entry in parallel.recompute_operators:
        if not any(_named(entry, operators) for operators in blocks):
            yield entry


def names(model: Model) -> list[str]:
    """What may be listed for a model."""
    blocks = {id(layer.operators): layer.operators for layer in model.layers if layer.block}.values()
    modules = [name for name, find in MODULES.items() if any(find(operators) for operators in blocks)]
    return list(dict.fromkeys([*modules, *(o.name for operators in blocks for o in operators if o.name)]))


# torchtitan's list


def _as_torchtitan(operators: Sequence[Operator]) -> list[Again]:
    found, products = [], 0
    for number, operator in enumerate(operators):
        if is_core(operator):
            found.append(KEPT)
        elif operator.kind in PRODUCTS:
            pieces = _pieces(operators, number)
            kept = Fraction(sum(size for n, size in enumerate(pieces, products) if n % 2 == 0), sum(pieces))
            products += len(pieces)
            found.append(Again(kept, 1 - kept))
        else:
            found.append(REPEATED)
    for number in reversed(range(len(found))):
        if operators[number].kind not in ONLY_RESULTS:
            break
        found[number] = Again(found[number].kept, Fraction(0))
    return found


def _pieces(operators: Sequence[Operator], number: int) -> list[int]:
    """The columns of the products that an operator stands for."""
    sizes = operators[number].sizes
    behind = next((o for o in operators[number + 1 :] if o.kind != "rotary"), None)
    if behind is not None and is_core(behind):
        heads, size = behind.sizes["heads"], behind.sizes["head_size"]
        of_keys, value = behind.sizes.get("kv_heads", heads), behind.sizes.get("value_size", size)
        pieces = [heads * size, of_keys * size, of_keys * value]
        if sum(pieces) == sizes.get("outputs"):
            return pieces
    if behind is not None and behind.kind in GATED and sizes.get("outputs") == 2 * behind.sizes["features"]:
        return [behind.sizes["features"]] * 2
    return [1]


# Lists


def _named(entry: str, operators: Sequence[Operator]) -> list[int]:
    """The operators that an entry names, by number."""
    if entry in MODULES:
        return MODULES[entry](operators)
    return [number for number, operator in enumerate(operators) if entry in (operator.kind, operator.name)]


def _core(operators: Sequence[Operator]) -> list[int]:
    return [number for number, operator in enumerate(operators) if is_core(operator)]


def _norms(operators: Sequence[Operator]) -> list[int]:
    """Norms in front of attention and of what follows it, not those within."""
    return [n for n, o in enumerate(operators) if o.kind in NORMS and (n == 0 or operators[n - 1].kind == "add")]


def _activation_of_experts(operators: Sequence[Operator]) -> list[int]:
    return [n for n, o in enumerate(operators) if n and o.kind in ACTIVATIONS and operators[n - 1].kind == "experts"]


def _up_projections(operators: Sequence[Operator]) -> list[int]:
    """Products behind the first one and before attention, with rotary positions."""
    core = next(iter(_core(operators)), 0)
    first = next((n for n, o in enumerate(operators[:core]) if o.kind == "linear"), core)
    products = [n for n in range(first + 1, core) if operators[n].kind == "linear"]
    return [n for n in range(first + 1, core) if operators[n].kind in ("linear", "rotary")] if products else []


def _dense(operators: Sequence[Operator]) -> list[int]:
    """Products behind attention and its output, with what is between them."""
    core = max(_core(operators), default=-1)
    products = [n for n, o in enumerate(operators) if n > core and o.kind == "linear"][1 if core >= 0 else 0 :]
    between = [n for n, o in enumerate(operators) if n - 1 in products and o.kind in ACTIVATIONS]
    return sorted([*products, *between])


def _mlp(operators: Sequence[Operator]) -> list[int]:
    return [] if any(o.kind == "experts" for o in operators) else _dense(operators)


def _shared_experts(operators: Sequence[Operator]) -> list[int]:
    return _dense(operators) if any(o.kind == "experts" for o in operators) else []


def _mixture(operators: Sequence[Operator]) -> list[int]:
    """From the router on until results are combined."""
    ends = [n for n, o in enumerate(operators) if o.kind in ("router", "dispatch", "experts", "combine")]
    return list(range(min(ends), max(ends) + 1)) if ends else []


MODULES: Final[Mapping[str, Callable[[Sequence[Operator]], list[int]]]] = {
    "core_attn": _core,
    "moe_act": _activation_of_experts,
    "layernorm": _norms,
    "mla_up_proj": _up_projections,
    "mlp": _mlp,
    "moe": _mixture,
    "shared_experts": _shared_experts,
}
"""Megatron-LM's modules, with the operators that they have."""
