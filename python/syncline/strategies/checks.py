"""What is wrong with a division of a model among NPUs: every rule, with the field to blame and what is accepted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Final

from syncline.base.errors import did_you_mean, one_of
from syncline.base.section import Violation
from syncline.models.model import DivisionError, Model
from syncline.sections.parallel import Parallel
from syncline.strategies import layers, recomputed, weights
from syncline.strategies.mesh import GRID_AXES, within

MOST_NPUS: Final = 2**20
MOST_PASSES: Final = 2_000_000
"""Passes of micro-batches through layers, in all programs together: there are some nodes for each."""
MOST_PAIRS: Final = 20_000_000
"""Sizes of exchanges among experts with different loads."""
SIZED: Final = ("tensor", "context", "pipeline")


def of_ways(parallel: Parallel, npus: int, sizes: Sequence[int] | None) -> Iterator[Violation]:
    """What is wrong with the ways on so many NPUs; `sizes` are those of a product topology."""
    if npus > MOST_NPUS:
        yield Violation(("topology",), f"models are not divided among {npus:,} NPUs", f"up to {MOST_NPUS:,}")
        return
    if parallel.on:
        yield from _on(parallel, sizes)
        return
    if sorted(parallel.order) != sorted({*parallel.order}):
        yield _violation("order", "an axis is listed twice", "tensor, context, data and pipeline, each once")
    ways = parallel.tensor * parallel.context * parallel.pipeline
    text = f"tensor {parallel.tensor} x context {parallel.context} x pipeline {parallel.pipeline}"
    if npus % ways:
        yield _violation(*_divisors(parallel, npus, ways, f"{text} is {ways}, which does not divide the {npus} NPUs"))
        return
    left = npus // ways
    if parallel.data not in (None, left):
        yield _violation(
            "data", f"{text} x data {parallel.data} is {ways * (parallel.data or 1)}, not the {npus} NPUs", f"{left}"
        )
    elif left % parallel.expert:
        message = f"the experts of {parallel.expert} NPUs do not divide the {left} data-parallel copies"
        yield _violation("expert", message, f"a divisor of {left}")


def _divisors(parallel: Parallel, npus: int, ways: int, message: str) -> tuple[str, str, str]:
    """The size to blame for ways that do not divide the NPUs: one that can be mended alone, if there is one."""
    sizes = {name: getattr(parallel, name) for name in SIZED}
    alone = [name for name in SIZED if sizes[name] > 1 and npus % (ways // sizes[name]) == 0]
    if not alone:
        return next(name for name in SIZED if sizes[name] > 1), message, f"sizes whose product divides {npus}"
    field = next((name for name in alone if npus % sizes[name]), alone[0])
    left = npus // (ways // sizes[field])
    beside = " and ".join(f"{name} {size}" for name, size in sizes.items() if name != field and size > 1)
    several = [str(size) for size in range(1, min(left, 1024) + 1) if left % size == 0]
    accepted = one_of(several) if left <= 1024 else f"a divisor of {left}"
    return field, message, f"{accepted}, beside {beside}" if beside else accepted


def _on(parallel: Parallel, sizes: Sequence[int] | None) -> Iterator[Violation]:
    """Dimensions of the topology in place of sizes."""
    if sizes is None:
        yield _violation("on", "this topology is no product of dimensions", "order, or a topology such as Torus(4,8,4)")
        return
    of_data = parallel.on.get("data", [])
    if within(of_data, sizes, parallel.hsdp) < 0:
        most = [prod(sizes[dim] for dim in of_data[: count + 1]) for count in range(len(of_data))]
        message = f"no dimensions of data, from the first on, have {parallel.hsdp} NPUs"
        yield _violation("hsdp", message, f"{one_of(map(str, most))}, or no value" if most else "no value")
        return
    named = [dim for dims in parallel.on.values() for dim in dims]
    if sorted(named) != list(range(len(sizes))):
        message = f"the topology has the dimensions 0 to {len(sizes) - 1}"
        yield _violation("on", message, "each of them for one axis")
        return
    for name in GRID_AXES:
        taken = prod(sizes[dim] for dim in parallel.on.get(name, ()))
        if name == "data":
            taken *= prod(sizes[dim] for dim in parallel.on.get("expert", ()))
        given = getattr(parallel, name)
        if name in parallel.model_fields_set and given not in (None, taken):
            message = f"{name} is {given}, and the dimensions that it is on have {taken} NPUs"
            yield _violation(name, message, f"{taken}, or no value")


def settled(parallel: Parallel, npus: int, sizes: Sequence[int] | None) -> Parallel:
    """With the sizes of all axes, given ways that are right. Of a single copy of weights nothing is divided."""
    if parallel.on and sizes is not None:
        taken: dict[str, int] = {name: prod(sizes[dim] for dim in parallel.on.get(name, ())) for name in GRID_AXES}
        taken["data"] *= taken["expert"]
    else:
        taken = {"data": npus // (parallel.tensor * parallel.context * parallel.pipeline)}
    copies = taken["data"] * taken.get("context", parallel.context)
    return parallel.model_copy(update=taken if copies > 1 else taken | {"zero": 0})


def of_rules(parallel: Parallel) -> Iterator[Violation]:
    """What does not go together, whatever the model. The sizes of all axes are known."""
    data = parallel.data or 1
    if parallel.sequence and parallel.tensor == 1:
        yield _violation("sequence", "nothing is divided among tensor-parallel NPUs", "false, or tensor of 2 or more")
    if parallel.scatter_gather and (parallel.tensor == 1 or parallel.pipeline == 1):
        yield _violation("scatter_gather", "no stage has tensor-parallel NPUs", "false, or tensor and pipeline")
    if parallel.expert_loads and len(parallel.expert_loads) != parallel.expert:
        message = f"there are {len(parallel.expert_loads)} shares for the experts of {parallel.expert} NPUs"
        yield _violation("expert_loads", message, "a share for each")
    elif parallel.expert_loads and not any(parallel.expert_loads):
        yield _violation("expert_loads", "no expert gets any tokens", "a share above 0")
    yield from _of_schedule(parallel)
    yield from _of_zero(parallel, data)
    yield from _of_servers(parallel, data)


def _of_schedule(parallel: Parallel) -> Iterator[Violation]:
    interleaved = parallel.schedule == "interleaved"
    if interleaved and parallel.virtual == 1:
        yield _violation("virtual", "an interleaved schedule has several chunks of layers in a stage", "2 or more")
    if not interleaved and parallel.virtual > 1:
        message = f"the schedule {parallel.schedule} has one chunk of layers in a stage"
        yield _violation("virtual", message, "1, or schedule interleaved")
    if interleaved and parallel.pipeline == 1:
        yield _violation(
            "schedule", "one stage has nothing to interleave", "pipeline of 2 or more, or another schedule"
        )


def _of_zero(parallel: Parallel, data: int) -> Iterator[Violation]:
    if parallel.hsdp is not None:
        yield from _of_groups(parallel, parallel.hsdp, data)
    if parallel.zero == 3 and parallel.pipeline > 1:
        message = "weights would be gathered again for each micro-batch of a stage"
        yield _violation("zero", message, "0 to 2 with a pipeline")
    if parallel.zero and parallel.schedule == "pipedream":
        yield _violation("zero", "pipedream keeps versions of whole weights", "0, or another schedule")


def _of_groups(parallel: Parallel, group: int, data: int) -> Iterator[Violation]:
    """What is wrong with groups that divide what ZeRO divides."""
    if not parallel.zero:
        yield _violation("hsdp", "nothing is divided among NPUs that have copies", "no value, or zero of 1 to 3")
    elif parallel.expert > 1:
        yield _violation("hsdp", "experts are divided among data-parallel NPUs already", "no value, or expert 1")
    elif data % group:
        yield _violation(
            "hsdp", f"groups of {group} do not divide the {data} data-parallel NPUs", f"a divisor of {data}"
        )


def _of_servers(parallel: Parallel, data: int) -> Iterator[Violation]:
    server = parallel.parameter_server
    if parallel.updates == "asynchronous" and server == "none":
        message = "copies that meet in collectives wait for each other"
        yield _violation("updates", message, "synchronous, or parameter_server central or sharded")
    if server == "none":
        return
    if data * parallel.context == 1:
        yield _violation("parameter_server", "there are no copies of weights to be served", "none, or more NPUs")
    for name, is_wrong, accepted in (
        ("zero", parallel.zero > 0, "0: the parameter server has the states"),
        ("expert", parallel.expert > 1, "1"),
        ("schedule", parallel.schedule == "pipedream", "gpipe, 1f1b or interleaved"),
        ("sequence", parallel.sequence, "false"),
    ):
        if is_wrong:
            yield _violation(name, "this does not go with a parameter server", f"{accepted}; or parameter_server none")


def of_batch(parallel: Parallel, global_batch: int, iterations: int) -> Iterator[Violation]:
    """What is wrong with the batch and its micro-batches. The sizes of all axes are known."""
    data = parallel.data or 1
    each = data * parallel.micro_batch
    if global_batch % each:
        field = ("parallel", "micro_batch") if global_batch % data == 0 else ("workload", "global_batch")
        message = f"a batch of {global_batch} is no multiple of data {data} x micro_batch {parallel.micro_batch}"
        accepted = f"a divisor of {global_batch // data}" if field[1] == "micro_batch" else f"a multiple of {each}"
        yield Violation(field, message, accepted)
        return
    micros = global_batch // each
    if parallel.schedule == "interleaved" and micros % parallel.pipeline:
        message = f"{micros} micro-batches are no multiple of the {parallel.pipeline} stages"
        yield _violation("schedule", message, "interleaved with such a multiple, or another schedule")
    if parallel.schedule == "pipedream" and iterations > 1:
        message = "pipedream has no end of an iteration: what follows the last micro-batch would be a flush"
        yield Violation(("training", "iterations"), message, "1, with a larger workload.global_batch")


def of_model(parallel: Parallel, model: Model) -> Iterator[Violation]:
    """What is wrong with the division of a model. The sizes of all axes are known."""
    blocks = sum(layer.block for layer in model.layers)
    if parallel.pipeline > 1 and not _has_stages(parallel, model, blocks):
        field = "virtual" if parallel.virtual > 1 and blocks % parallel.pipeline == 0 else "pipeline"
        chunks = f" x virtual {parallel.virtual}" if parallel.virtual > 1 else ""
        message = f"{model.name} has {blocks} blocks, which pipeline {parallel.pipeline}{chunks} does not divide"
        yield _violation(field, message, _sizes(blocks, parallel.pipeline if field == "virtual" else parallel.virtual))
    axes = {axis for layer in model.layers for operator in layer.operators for axis in operator.split}
    for name in ("tensor", "expert"):
        if getattr(parallel, name) > 1 and name not in axes:
            yield _violation(name, f"{model.name} has no operator that says how it is divided", "1, or another model")
            return
    between = [name for name in ("tensor", "pipeline", "context") if getattr(parallel, name) > 1]
    if not model.hidden and between:
        yield _violation(between[0], f"the layers of {model.name} hand on different sizes", "1, or another model")
        return
    if between not in ([], ["tensor"]) and _has_joints(model):
        message = f"layers of {model.name} stand between its blocks, which all blocks that follow need"
        yield _violation(next(name for name in between if name != "tensor"), message, "1, or another model")
        return
    cores = any("queries" in operator.sizes for layer in model.layers for operator in layer.operators)
    if parallel.context > 1 and (model.tokens == 1 or not cores):
        yield _violation("context", f"the samples of {model.name} have no tokens to divide", "1")
        return
    if parallel.recompute in ("full", "operators") and not blocks:
        yield _violation("recompute", f"{model.name} has no blocks", "none")
    for entry in recomputed.unknown(model, parallel):
        listed = recomputed.names(model)
        message = f"no block of {model.name} has an operator {entry!r}{did_you_mean(entry, listed)}"
        yield _violation("recompute_operators", message, f"torchtitan, or some of {one_of(listed)}")
    yield from _divided(parallel, model)


def _has_stages(parallel: Parallel, model: Model, blocks: int) -> bool:
    """Whether each chunk of each stage gets layers, as many as all others but for the first and the last one."""
    numbers = weights.blocks_of_chunks(blocks, parallel.pipeline * parallel.virtual)
    if numbers is None:
        return False
    ends = ((numbers[0], model.layers[0]), (numbers[-1], model.layers[-1]))
    return all(number or not layer.block for number, layer in ends)


def _sizes(blocks: int, other: int) -> str:
    """What divides so many blocks, in so many times as many chunks."""
    whole = [(blocks + sum(fewer)) // other for fewer in weights.FEWER if (blocks + sum(fewer)) % other == 0]
    if not whole or not blocks:
        return "1"
    others = " or ".join(f"{number}" for number in whole[1:])
    return f"a divisor of {whole[0]}" + (f", or of {others}, with a block less at the ends" if others else "")


def _has_joints(model: Model) -> bool:
    """Whether a layer that is no block stands between blocks, as between an encoder and a decoder."""
    blocks = [number for number, layer in enumerate(model.layers) if layer.block]
    return bool(blocks) and blocks[-1] - blocks[0] + 1 > len(blocks)


def of_graph(parallel: Parallel, model: Model, micros: int, programs: int) -> Iterator[Violation]:
    """What would be too much to write down: so many micro-batches in programs of so many kinds."""
    passes = 2 * micros * len(model.layers) * programs // parallel.pipeline
    if passes > MOST_PASSES:
        message = f"{micros:,} micro-batches through {len(model.layers):,} layers are too many to be simulated"
        many = "" if programs == parallel.pipeline else f", in {programs:,} programs that differ"
        most = f"at most {MOST_PASSES * parallel.pipeline // (2 * len(model.layers) * programs):,} micro-batches"
        yield Violation(("workload", "global_batch"), message + many, f"{most}: a smaller batch, or larger micro_batch")
    elif parallel.expert_loads and passes * 2 * parallel.expert**2 > MOST_PAIRS:
        message = f"{passes:,} exchanges among {parallel.expert} NPUs have too many sizes"
        yield _violation("expert_loads", message, "no loads, or fewer experts, layers or micro-batches")


def _divided(parallel: Parallel, model: Model) -> Iterator[Violation]:
    """Sizes of operators that cannot be divided, the first one for each axis."""
    different = list({id(layer.operators): layer for layer in model.layers}.values())
    for field in ("tensor", "expert", "context"):
        others = {name: 1 for name in ("tensor", "expert", "context") if name != field}
        alone = parallel.model_copy(update=others | {"sequence": parallel.sequence and field == "tensor"})
        try:
            for layer in different:
                layers.regions(layer, alone)
        except DivisionError as error:
            yield _violation(field, str(error), f"a divisor of that size{_padded(error)}")
            return
    try:
        for layer in different:
            layers.regions(layer, parallel)
    except DivisionError as error:
        yield _violation("context", str(error), f"ways whose product divides that size, for {one_of(SIZED[:2])}")


def _padded(error: DivisionError) -> str:
    """How a vocabulary may be divided all the same: with words that nobody uses, as Megatron-LM adds them
    (`--make-vocab-size-divisible-by`, 128 for each NPU).
    """
    if error.size != "vocabulary":
        return ""
    unit = 128 * error.ways
    return f", or workload.parameters: {{vocabulary: {-(-error.value // unit) * unit}}}, padded as Megatron-LM does"


def _violation(field: str, message: str, accepted: str) -> Violation:
    return Violation(("parallel", field), message, accepted)
