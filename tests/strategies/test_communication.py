"""What strategies exchange, against tables derived by hand: per layer, and per iteration of whole models.

b samples of s tokens with h features and elements of e bytes make an activation of A = b s h e bytes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support import divided
from support.divided import ELEMENT, SHAPE, exchanged, of_one_class, total
from syncline.sections.data_types import Widths
from syncline.sections.parallel import Parallel
from syncline.strategies import build
from syncline.strategies.costs import Costs
from syncline.strategies.mesh import Mesh
from syncline.strategies.nodes import WEIGHT_GRAD

L, H, V, S = SHAPE["layers"], SHAPE["hidden"], SHAPE["vocabulary"], SHAPE["tokens"]
A: Final = S * H * ELEMENT
"""An activation of a micro-batch of one sample."""
BLOCK: Final = 12 * H * H + 13 * H
"""Parameters of a block: 12 h^2 of matrices, biases and norms 13 h (Narayanan et al., SC 2021, section 5)."""
WHOLE: Final = 6 * H
"""Those of a block that sequence parallelism applies to a part of the tokens: two norms, and two biases of rows."""


def blocks(samples: int = 1) -> Any:
    """A model of blocks alone."""
    return divided.gpt(samples, ends=False)


def of(**counted: int) -> Counter[tuple[str, str]]:
    """Bytes by family and operation, written as `family__operation`."""
    pairs = (key.replace("_and_", "-").split("__") for key in counted)
    sizes = counted.values()
    return Counter({(a.replace("_", "-"), b.replace("_", "-")): n for (a, b), n in zip(pairs, sizes, strict=True) if n})


# Tensor parallelism. Shoeybi et al., "Megatron-LM", section 3 and Fig. 4: two all-reduces forward and two backward in a
# block. Korthikanti et al., section 4.2.2: in their place all-gathers and reduce-scatters; the all-gathers of the
# inputs of both parts are repeated backward.


def test_tensor_parallelism_of_a_block() -> None:
    found = of_one_class({"tensor": 2}, 2, model=blocks(), costs_update=False)
    assert found == of(tensor__all_reduce=L * 4 * A)
    counted = exchanged(build.graph(divided.setting({"tensor": 2}, 2, 3, blocks())), nodes=True)["stage 0"]
    assert counted == of(tensor__all_reduce=3 * L * 4)


def test_sequence_parallelism_of_a_block() -> None:
    found = of_one_class({"tensor": 4, "sequence": True}, 4, model=blocks())
    # Two norms and the two biases behind reduce-scatters are held by all and see a part of the tokens: Megatron-LM's
    # finalize_model_grads reduces all that is marked `sequence_parallel`, which the bias of RowParallelLinear is.
    whole = L * WHOLE * ELEMENT
    assert found == of(tensor__all_gather=L * 6 * A, tensor__reduce_scatter=L * 4 * A, tensor__all_reduce=whole)


@pytest.mark.parametrize(
    ("sequence", "kinds"), [(False, {"all-reduce": 6}), (True, {"all-gather": 8, "reduce-scatter": 6})]
)
def test_layers_that_are_computed_again_communicate_again(sequence: bool, kinds: dict[str, int]) -> None:
    parallel = {"tensor": 2, "sequence": sequence, "recompute": "full"}
    found = of_one_class(parallel, 2, model=blocks())
    whole = L * WHOLE * ELEMENT if sequence else 0
    assert {kind: n for (_, kind), n in found.items()} == Counter({k: n * L * A for k, n in kinds.items()}) + Counter(
        {"all-reduce": whole}
    )
    selective = of_one_class(parallel | {"recompute": "selective"}, 2, model=blocks())
    assert selective == of_one_class(parallel | {"recompute": "none"}, 2, model=blocks())


def test_the_ends_of_gpt_are_vocabulary_parallel() -> None:
    """Shoeybi et al., section 3: an all-reduce behind the embedding; the head communicates b s numbers rather than
    b s v; here three of four bytes: the largest logit, the wanted one, and the sum of exponentials.
    """
    ends = of_one_class({"tensor": 2}, 2) - of_one_class({"tensor": 2}, 2, model=blocks())
    assert ends == of(tensor__all_reduce=A + 3 * 4 * S + A)
    parallel = {"tensor": 2, "sequence": True}
    ends = of_one_class(parallel, 2) - of_one_class(parallel, 2, model=blocks())
    # Forward: reduce-scatter of the embedding, all-gather in the head. Backward: all-gather for the embedding, input of
    # the head again, and reduce-scatter of its gradient. Held by all: the table of positions and the last norm.
    whole = (S * H + 2 * H) * ELEMENT
    assert ends == of(tensor__all_gather=3 * A, tensor__reduce_scatter=2 * A, tensor__all_reduce=3 * 4 * S + whole)


# Data parallelism. The tutorial ("Parallelism: Hybrid Parallel"): weight gradients only. Rajbhandari et al., "ZeRO",
# section 7: with P bytes of parameters, ZeRO 1 and 2 reduce-scatter and all-gather P each, ZeRO 3 all-gathers 2 P.


@pytest.mark.parametrize(
    ("zero", "kinds"),
    [
        (0, {"all-reduce": 1}),
        (1, {"reduce-scatter": 1, "all-gather": 1}),
        (2, {"reduce-scatter": 3, "all-gather": 1}),
        (3, {"reduce-scatter": 3, "all-gather": 6}),
    ],
)
def test_data_parallelism_of_three_micro_batches(zero: int, kinds: dict[str, int]) -> None:
    found = of_one_class({"zero": zero}, 4, 3, model=blocks())
    assert found == Counter({("data", kind): n * L * BLOCK * ELEMENT for kind, n in kinds.items()})


@pytest.mark.parametrize(
    ("zero", "widths", "reduced", "gathers"),
    [
        (1, Widths(2, 2, 4, 4, 4), 4, 2),  # Megatron-LM
        (1, Widths(4, 2, 4, 0, 4), 4, 4),  # autocast: stored weights are gathered
        (3, Widths(4, 2, 4, 0, 4), 4, 2 * 2),  # FSDP: casts of weights are, forward and backward
        (3, Widths(4, 2, 2, 0, 4), 2, 2 * 2),
    ],
)
def test_weights_and_gradients_are_sent_in_their_types(zero: int, widths: Widths, reduced: int, gathers: int) -> None:
    found = of_one_class({"zero": zero}, 4, model=blocks(), given=widths)
    assert found == of(data__reduce_scatter=L * BLOCK * reduced, data__all_gather=L * BLOCK * gathers)


def test_buckets_hold_layers_that_follow_one_another() -> None:
    size = BLOCK * ELEMENT
    for bucket, first, expected in ((1, None, 4), (size + 1, None, 2), (10 * size, None, 1), (2 * size, 1, 3)):
        found = divided.setting({}, 2, 1, blocks(), bucket=bucket, first_bucket=first)
        assert sum(exchanged(build.graph(found), nodes=True)["stage 0"].values()) == expected
    late = divided.setting({}, 2, 1, blocks(), overlap=False)
    nodes = build.graph(late).classes[0].nodes
    first_exchange = next(n for n, node in enumerate(nodes) if node.work["op"] == "collective")
    assert all(node.work["op"] != "kernels" for node in nodes[first_exchange:-1])


# Parameter servers. The tutorial ("Model Parameter Update Mechanisms"): gradients to the server, weights back.


def test_parameter_servers() -> None:
    size = L * BLOCK * ELEMENT
    found = exchanged(build.graph(divided.setting({"parameter_server": "central"}, 4, 1, blocks())))
    assert found == {name: of(data__reduce=size, data__broadcast=size) for name in ("stage 0, server", "stage 0")}
    sharded = of_one_class({"parameter_server": "sharded"}, 4, model=blocks())
    assert sharded == of(data__reduce_scatter=size, data__all_gather=size)
    asynchronous = {"parameter_server": "central", "updates": "asynchronous"}
    found = exchanged(build.graph(divided.setting(asynchronous, 4, 1, blocks())))
    # Three workers send their gradients; the server sends weights to each.
    assert [sum(of_class.values()) for of_class in found.values()] == [3 * size, size, size, size]
    sharded = of_one_class(asynchronous | {"parameter_server": "sharded"}, 4, model=blocks())
    assert sharded == of(data__send=2 * 3 * size // 4)


@pytest.mark.parametrize(("gradient", "element"), [(4, 2), (2, 4)])
@pytest.mark.parametrize("server", ["central", "sharded"])
@pytest.mark.parametrize("updates", ["synchronous", "asynchronous"])
def test_gradients_go_to_a_server_and_weights_come_back(gradient: int, element: int, server: str, updates: str) -> None:
    """Each way has the width of what it carries, and a server updates what it is sent and has."""
    copies = 4
    parallel = {"parameter_server": server, "updates": updates}
    setting = divided.setting(parallel, copies, 1, blocks(), given=Widths(element, element, gradient, 4, 4))
    graph = build.graph(replace(setting, costs=Costs(element)))
    there, back = Counter[str](), Counter[str]()
    for of_class in graph.classes:
        for node in of_class.nodes:
            work = node.work
            if "family" in work and work["op"] != "recv":
                (there if node.pass_ == WEIGHT_GRAD else back)[of_class.name] += work["bytes"]
    parameters = L * BLOCK
    if updates == "synchronous":
        assert set(there.values()) == {parameters * gradient}
        assert set(back.values()) == {parameters * element}
    elif server == "central":
        assert (sum(there.values()), sum(back.values())) == (3 * parameters * gradient, 3 * parameters * element)
        assert back["stage 0, server"] == sum(back.values())
    else:
        assert set(there.values()) == {3 * parameters * gradient // copies}
        assert set(back.values()) == {3 * parameters * element // copies}


# Pipelines. The tutorial ("Parallelism: Pipelined Parallel"): outputs forward, input gradients backward.


@pytest.mark.parametrize(("schedule", "chunks"), [("gpipe", 1), ("1f1b", 1), ("pipedream", 1), ("interleaved", 2)])
def test_a_pipeline_sends_activations_and_their_gradients(schedule: str, chunks: int) -> None:
    parallel = {"pipeline": 2, "schedule": schedule, "virtual": chunks, "micro_batch": 3}
    found = exchanged(build.graph(divided.setting(parallel, 2, 4, blocks(3))))
    # Chunks of layers are passed 2 chunks - 1 times each way, from either stage.
    assert found["stage 0"]["pipeline", "send"] == 4 * 3 * A * (2 * chunks - 1)
    assert found["stage 1"]["pipeline", "send"] == 4 * 3 * A * (2 * chunks - 1)


def test_tensor_parallel_stages_send_whole_activations_unless_they_scatter_them() -> None:
    """Narayanan et al., SC 2021, section 4.1."""
    parallel = {"pipeline": 2, "tensor": 4}
    whole, parts = total(parallel, 8, 2), total(parallel | {"scatter_gather": True}, 8, 2)
    assert whole["pipeline", "send"] == 2 * 2 * A
    assert parts["pipeline", "send"] == 2 * 2 * A // 4
    assert parts["tensor", "all-gather"] - whole["tensor", "all-gather"] == 2 * 2 * A
    assert total(parallel | {"sequence": True}, 8, 2)["pipeline", "send"] == 2 * 2 * A // 4


def test_stages_that_share_a_table_add_up_its_gradients() -> None:
    found = exchanged(build.graph(divided.setting({"pipeline": 2, "tensor": 2, "data": 2}, 8, 4)))
    for stage in ("stage 0", "stage 1"):
        assert found[stage]["embedding", "all-reduce"] == V // 2 * H * ELEMENT
    assert not any(family == "embedding" for family, _ in of_one_class({"tensor": 2}, 2))


def test_the_exchange_of_a_shared_table_has_one_name_on_all_stages() -> None:
    """It is one collective: who looks for it by the layer of one stage has to find it on another."""
    graph = build.graph(divided.setting({"pipeline": 2, "data": 2, "zero": 1}, 4, 4))
    number = list(graph.families).index("embedding")
    accounted = [[n.layer for n in c.nodes if n.work.get("family") == number] for c in graph.classes]
    assert accounted == [["embedding"], ["embedding"]]
    updates = [next(n.layer for n in c.nodes if n.pass_ == "update") for c in graph.classes]
    assert updates == ["embedding", "block.2"]  # the first layer of each stage


# Experts: two all-to-alls forward and two backward (Lepikhin et al., "GShard", section 3.2).


def test_experts_exchange_what_each_token_has_chosen() -> None:
    model = divided.mixture(1, 8, 2)
    found = of_one_class({"expert": 4}, 8, model=model)
    assert found["expert", "all-to-all"] == L * 4 * 2 * A
    experts = 8 * 2 * 4 * H * H
    assert found["expert-data", "all-reduce"] == L * experts // 4 * ELEMENT
    assert found["data", "all-reduce"] == L * (4 * H * H + 4 * H + 4 * H) * ELEMENT
    # With tensor parallelism, all-reduces of what experts give, and of the gradients of what they take.
    found = of_one_class({"expert": 2, "tensor": 2}, 4, model=model)
    assert found["tensor", "all-reduce"] == L * (2 * A + 2 * 2 * A)
    # With sequence parallelism, each NPU sends the tokens that it has.
    found = of_one_class({"expert": 2, "tensor": 2, "sequence": True}, 4, model=model)
    assert found["expert", "all-to-all"] == L * 4 * 2 * A // 2


def test_loads_of_experts_skew_what_goes_to_them() -> None:
    parallel = {"expert": 4, "expert_loads": [1.0, 2.0, 1.0, 0.0]}
    graph = build.graph(divided.setting(parallel, 4, 1, divided.mixture(1, 8, 2)))
    assert [of_class.name for of_class in graph.classes] == [f"stage 0, experts {n}" for n in range(4)]
    sizes = [[n.work["bytes"] for n in c.nodes if n.work["op"] == "exchange"] for c in graph.classes]
    assert all(of_class == sizes[0] for of_class in sizes)
    there, back = sizes[0][0], sizes[0][1]
    assert there == [[2 * A // 4, 2 * A // 2, 2 * A // 4, 0]] * 4
    assert back == [list(column) for column in zip(*there, strict=True)]
    assert len(sizes[0]) == 4 * L


# Context: keys and values of s / c tokens, 2 A / c bytes, go on c - 1 times forward; backward they do so again, and
# their gradients go on c times (Liu et al., "Ring Attention", section 3).


@pytest.mark.parametrize("ways", [2, 4])
def test_ring_attention_passes_keys_and_values_around(ways: int) -> None:
    found = of_one_class({"context": ways}, ways, model=blocks())
    assert found["context", "send"] == L * 2 * A // ways * ((ways - 1) * 2 + ways)
    assert found["data", "all-reduce"] == L * BLOCK * ELEMENT
    gathered = of_one_class({"context": ways, "context_exchange": "all-gather"}, ways, model=blocks())
    assert gathered["context", "all-gather"] == L * 2 * (2 * A)
    assert gathered["context", "reduce-scatter"] == L * 2 * A


def test_context_leaves_the_operations_of_attention_as_they_are() -> None:
    """c NPUs compute as much together as one does alone."""
    alone, ring = (divided.setting({"context": c}, c, 1, blocks(), costs_update=False) for c in (1, 4))
    flops = [
        sum(divided.flops(graph, node) for node in graph.classes[0].nodes)
        for graph in (build.graph(alone), build.graph(ring))
    ]
    assert flops[0] == 4 * flops[1]


# The tutorial's table ("Parallelism: Hybrid Parallel"): what is communicated, by strategy.


@pytest.mark.parametrize(
    ("parallel", "expected"),
    [
        ({}, {"weight-grad"}),
        ({"tensor": 4}, {"forward", "input-grad"}),
        ({"tensor": 2}, {"forward", "input-grad", "weight-grad"}),
        ({"tensor": 2, "order": ["data", "tensor", "context", "pipeline"]}, {"forward", "input-grad", "weight-grad"}),
        ({"pipeline": 4}, {"forward", "input-grad"}),
    ],
)
def test_what_is_communicated_in_which_pass(parallel: dict[str, Any], expected: set[str]) -> None:
    graph = build.graph(divided.setting(parallel, 4, 4, blocks()))
    passes = {n.pass_ for c in graph.classes for n in c.nodes if n.work["op"] in ("collective", "send")}
    assert passes == expected


def test_either_nesting_places_groups_as_it_says() -> None:
    inner = build.graph(divided.setting({"tensor": 2}, 4, 1)).families
    assert inner["tensor"]["groups"] == [[0, 1], [2, 3]]
    assert inner["data"]["groups"] == [[0, 2], [1, 3]]
    outer = build.graph(
        divided.setting({"tensor": 2, "order": ["data", "tensor", "context", "pipeline"]}, 4, 1)
    ).families
    assert (outer["data"]["groups"], outer["tensor"]["groups"]) == (inner["tensor"]["groups"], inner["data"]["groups"])


@given(order=st.permutations(["tensor", "context", "data", "pipeline"]), on_product=st.booleans())
def test_ranks_of_axes_together_follow_the_numbers_of_npus(order: list[str], on_product: bool) -> None:
    """Then those of a server are in a row, whichever axis is innermost."""
    ways = {"tensor": 2, "context": 2, "expert": 2, "pipeline": 2}
    parallel = Parallel.model_validate({**ways, "order": order})
    if on_product:
        axes = [axis for name in order for axis in (("expert", "data") if name == "data" else (name,))]
        on = {axis: [dim] for dim, axis in enumerate(axes)}
        mesh = Mesh.of(Parallel.model_validate({"on": on}), 32, [2] * 5)
    else:
        mesh = Mesh.of(parallel, 32)
    for along in build.FAMILIES.values():
        for group in mesh.groups(*along):
            assert group == sorted(group)
    assert all(pair == sorted(pair) for pair in mesh.ends())


# Random combinations


@st.composite
def combinations(draw: st.DrawFn) -> tuple[dict[str, Any], int, int]:
    """A division of a GPT, its NPUs and its micro-batches."""
    tensor, context = draw(st.sampled_from([1, 2, 4])), draw(st.sampled_from([1, 2, 4]))
    schedule = draw(st.sampled_from(["gpipe", "1f1b", "interleaved"]))
    pipeline = 2 if schedule == "interleaved" else draw(st.sampled_from([1, 2, 4]))
    data = draw(st.sampled_from([1, 2, 3]))
    zero = draw(st.integers(0, 3 if pipeline == 1 else 2)) if data * context > 1 else 0
    parallel = {
        "tensor": tensor,
        "sequence": tensor > 1 and draw(st.booleans()),
        "context": context,
        "pipeline": pipeline,
        "schedule": schedule,
        "virtual": 2 if schedule == "interleaved" else 1,
        "zero": zero,
        "micro_batch": draw(st.sampled_from([1, 2])),
        "recompute": draw(st.sampled_from(["none", "selective", "full"])),
        "order": draw(st.permutations(["tensor", "context", "data", "pipeline"])),
    }
    return parallel, tensor * context * pipeline * data, pipeline * draw(st.integers(1, 3))


def expected(parallel: dict[str, Any], npus: int, micros: int) -> Counter[tuple[str, str]]:
    """What one NPU of each stage exchanges, together, by formula."""
    t, c, p, v, zero = (parallel[name] for name in ("tensor", "context", "pipeline", "virtual", "zero"))
    a, rows = parallel["micro_batch"] * A // c, parallel["micro_batch"] * S // c
    sequence, full = parallel["sequence"], parallel["recompute"] == "full"
    found: Counter[tuple[str, str]] = Counter()
    matrices = 12 * H * H // t + 7 * H // t  # biases of columns are divided, those of rows are not
    params = L * (matrices + 6 * H) + (V * H // t) * (2 if p > 1 else 1) + S * H + 2 * H
    if t > 1 and sequence:
        found["tensor", "all-gather"] = micros * a * (L * (8 if full else 6) + 3)
        found["tensor", "reduce-scatter"] = micros * a * (L * (6 if full else 4) + 2)
        found["tensor", "all-reduce"] = micros * 12 * rows + (L * WHOLE + S * H + 2 * H) * ELEMENT
    elif t > 1:
        found["tensor", "all-reduce"] = micros * (a * (L * (6 if full else 4) + 2) + 12 * rows)
    if c > 1:
        hops = (c - 1) * (3 if full else 2) + c
        found["context", "send"] = micros * L * 2 * a // t * hops
    if p > 1:
        found["pipeline", "send"] = micros * (p * v - 1) * 2 * a // (t if sequence else 1)
        found["embedding", "all-reduce"] = 2 * V * H // t * ELEMENT
    if npus > t * p:
        once = {0: {"all-reduce": 1}, 1: {"reduce-scatter": 1, "all-gather": 1}}
        many = {2: {"reduce-scatter": micros, "all-gather": 1}, 3: {"reduce-scatter": micros, "all-gather": 2 * micros}}
        for kind, times in (once | many)[zero].items():
            found["data", kind] = times * params * ELEMENT
    return found


@settings(max_examples=60, deadline=None)
@given(combinations())
def test_bytes_of_random_combinations_are_those_of_formulas(drawn: tuple[dict[str, Any], int, int]) -> None:
    parallel, npus, micros = drawn
    assert total(parallel, npus, micros) == expected(parallel, npus, micros)
