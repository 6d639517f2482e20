"""Recomputation by operator: what is kept, what runs again, and what is exchanged once more."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from support import divided
from support.divided import ELEMENT, SHAPE, exchanged
from syncline.models.model import Model
from syncline.sections.parallel import Parallel
from syncline.sections.workloads import DividedWorkload, Training
from syncline.strategies import build, memory, saved
from syncline.strategies.layers import Compute, LayerPasses, Ring
from syncline.strategies.setting import Setting
from syncline.strategies.training import Request

L, H, A, S = SHAPE["layers"], SHAPE["hidden"], SHAPE["heads"], SHAPE["tokens"]
B = 2
SBH = S * B * H


def setting(npus: int = 1, model: Model | None = None, **parallel: Any) -> Setting:
    return divided.setting({"micro_batch": B, **parallel}, npus, 1, model or divided.gpt(B, ends=False))


def of_list(*entries: str) -> dict[str, Any]:
    return {"recompute": "operators", "recompute_operators": list(entries)}


def kept(npus: int = 1, model: Model | None = None, **parallel: Any) -> int:
    """Bytes that a block keeps of a micro-batch."""
    of = setting(npus, model, **parallel)
    return saved.kept_bytes(of.model.layers[1], of.parallel, of)


def flops(of: Setting) -> int:
    """Operations of the backward pass of a block."""
    steps = LayerPasses(of.parallel, of.costs).steps(of.model.layers[1]).backward
    return sum(k.flops for step in steps if isinstance(step, Compute | Ring) for k in step.kernels)


def sent(npus: int, model: Model | None = None, **parallel: Any) -> Counter[tuple[str, str]]:
    """How many collectives of each kind an NPU takes part in."""
    (found,) = exchanged(build.graph(setting(npus, model, **parallel)), nodes=True).values()
    return found


@pytest.mark.parametrize("parallel", [{}, {"tensor": 2}, {"tensor": 2, "sequence": True}, {"context": 2}])
def test_the_core_of_attention_alone_is_selective_recomputation(parallel: dict[str, Any]) -> None:
    npus = 2 if parallel else 1
    listed, selective = (
        setting(npus, **parallel, **more) for more in (of_list("core_attn"), {"recompute": "selective"})
    )
    assert build.graph(listed).classes == build.graph(selective).classes
    assert kept(npus, **parallel, **of_list("core_attn")) == kept(npus, **parallel, recompute="selective")


def test_what_is_computed_again_is_not_kept() -> None:
    """Of 34 bytes for each token and feature of a block, its scores left out, whose core is `selective` below."""
    rest = of_list("core_attn")["recompute_operators"]

    def less(*entries: str) -> int:
        return 34 * SBH - kept(**of_list(*rest, *entries))

    assert less() == 0
    assert less("layernorm") == 2 * 2 * SBH  # what the first products take
    assert less("gelu") == less("mlp.gelu") == 8 * SBH  # what the second one takes; its own input is kept
    assert less("mlp") == 2 * 8 * SBH - 2 * SBH + 2 * SBH  # all but the input of the first one
    assert less("dropout") == 2 * SBH - 2 * 2 * SBH  # masks, for the inputs of dropout
    assert kept(**of_list("layer-norm")) == kept(**of_list("layernorm"))


def test_products_run_again() -> None:
    none, mlp = setting(), setting(**of_list("mlp"))
    again = mlp.costs.kernels(mlp.model.layers[1].operators[7:10], "forward")
    assert [o.name for o in mlp.model.layers[1].operators[7:10]] == ["mlp.up", "mlp.gelu", "mlp.down"]
    assert flops(mlp) - flops(none) == sum(kernel.flops for kernel in again) > 0


LLAMA_3: dict[str, Any] = {"model": "llama3-8b", "sequence": 8192}


def of_llama(**parallel: Any) -> Setting:
    """Llama 3 8B on 8 NPUs as torchtitan trains it, two samples each."""
    types = {"weights": "fp32", "compute": "bf16", "gradients": "fp32", "states": "fp32"}
    workload = DividedWorkload.model_validate({**LLAMA_3, "global_batch": 16, "precision": types})
    given = Parallel.model_validate({"micro_batch": 2, "zero": 3, **parallel})
    request = Request(workload, given, Training(), 8, None)
    assert not list(request.violations())
    return request.setting()


def test_torchtitan_keeps_every_second_product() -> None:
    """Of q, k, v, o, w1, w3, w2 those of q, v, w1 and w2, and what attention returns, beside the input of the block."""
    of, tokens = of_llama(recompute="operators"), 2 * 8192
    hidden, keys, wide = 4096, 1024, 14336
    elements = tokens * (hidden + hidden + keys + hidden + wide + hidden)
    assert saved.kept_bytes(of.model.layers[1], of.parallel, of) == elements * 2 + tokens * 32 * 4
    # k, o and w3 run again, with norms, rotary positions and SwiGLU between them; w2 and the last sum do not.
    products = 2 * tokens * hidden * (keys + hidden + wide)
    more = flops(of) - flops(of_llama(recompute="none"))
    assert products < more < products * 1.01
    full = flops(of_llama(recompute="full")) - flops(of_llama(recompute="none"))
    assert more < full / 2


def test_the_run_of_torchtitan_needs_less_than_it_reserved() -> None:
    """82.4 GiB were reserved for Llama 3.1 8B on 8 H100 (benchmarks/llama3_h100_202412), fragmentation included."""
    (found,) = memory.of(of_llama(recompute="operators"))
    assert 0.8 * 82.4 < found.total / 2**30 < 82.4
    (whole,) = memory.of(of_llama(recompute="none"))
    assert whole.total / 2**30 > 96


def test_collectives_that_are_repeated() -> None:
    """A list repeats all that its operators exchange; torchtitan keeps what reduce-scatters return."""
    gather, scatter, reduce = (("tensor", kind) for kind in ("all-gather", "reduce-scatter", "all-reduce"))
    parts: dict[str, Any] = {"tensor": 2, "sequence": True}
    assert (sent(2, **parts)[gather], sent(2, **parts)[scatter]) == (6 * L, 4 * L)
    mlp = sent(2, **parts, **of_list("mlp"))
    assert (mlp[gather], mlp[scatter]) == (6 * L, 5 * L)  # gathered before the pass, in place of within it
    titan = sent(2, **parts, recompute="operators")
    assert (titan[gather], titan[scatter]) == (6 * L, 4 * L)
    assert sent(2, tensor=2)[reduce] == 4 * L
    assert sent(2, tensor=2, **of_list("mlp"))[reduce] == 5 * L
    assert sent(2, tensor=2, **of_list("layernorm", "mlp.gelu"))[reduce] == 4 * L
    assert sent(2, tensor=2, recompute="operators")[reduce] == 6 * L  # of the second and the last product


def test_experts_exchange_again_only_in_a_list() -> None:
    model, exchanges = divided.mixture(4, 4, 2), ("expert", "all-to-all")
    layers = len(model.layers)
    none = sent(4, model, expert=4)[exchanges]
    assert none == 4 * layers
    assert sent(4, model, expert=4, **of_list("moe"))[exchanges] == none + 2 * layers
    assert sent(4, model, expert=4, recompute="operators")[exchanges] == none
    assert kept(4, model, expert=4, **of_list("moe")) < kept(4, model, expert=4)


def test_entries_that_name_nothing_are_refused() -> None:
    workload = DividedWorkload.model_validate({"model": "gpt2", "global_batch": 1})
    for entry, hint in (("moe", "some of"), ("mlp.gleu", "did you mean 'mlp.gelu'?")):
        given = Parallel.model_validate(of_list(entry))
        (found,) = Request(workload, given, Training(), 1, None).violations()
        assert found.path == ("parallel", "recompute_operators")
        assert entry in found.message
        assert hint in f"{found.message} {found.accepted}"


def test_a_block_that_is_computed_again_is_there_whole() -> None:
    (found,) = memory.phases(setting(**of_list("mlp")))
    whole = 34 * SBH + 5 * A * S * S * B
    assert found[0].activations == (L - 1) * kept(**of_list("mlp")) + whole
    assert ELEMENT == 2
