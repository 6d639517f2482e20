"""Models that come with the package against published counts of parameters and operations."""

from __future__ import annotations

import pytest

from syncline.models import counts, demands, file
from syncline.models.evaluate import evaluate
from syncline.models.model import DivisionError, Model

EXACT = {
    # Released models, counted by their libraries.
    "gpt2": 124_439_808,
    "gpt2-xl": 1_557_611_200,
    "llama2-7b": 6_738_415_616,
    "llama2-13b": 13_015_864_320,
    "llama2-70b": 68_976_648_192,
    "llama3-8b": 8_030_261_248,
    "llama3-70b": 70_553_706_496,
    "llama3-405b": 405_853_388_800,
    "mixtral-8x7b": 46_702_792_704,
    "bert-large": 336_226_108,
    "t5-large": 737_668_096,
    "t5-11b": 11_307_321_344,
    "alexnet": 61_100_840,
    "vgg16": 138_357_544,
    "resnet18": 11_689_512,
    "resnet50": 25_557_032,
    # MLPerf's reference has four layers on each side and 160,671,297.
    "gnmt": 244_622_913,
    "dlrm": 57_411_584,
    "ncf": 31_832_577,
}
ROUNDED = {
    # In billions, as published, and to how many digits.
    "gpt3-13b": (12.9, 0.05),
    "gpt3-175b": (174.6, 0.05),
    "megatron-8.3b": (8.3, 0.05),
    "turing-nlg-17b": (17.2, 0.05),
    "mt-nlg-530b": (529.6, 0.05),
    "transformer-1t": (1008.0, 0.05),
    "deepseek-v3": (671, 0.5),
    "dlrm-mlperf": (24.0, 0.05),
}


def model(name: str, samples: int = 1, sequence: int | None = None, **parameters: int) -> Model:
    return evaluate(file.load(name), samples, sequence, parameters)


def test_every_model_that_comes_with_the_package_is_tested() -> None:
    families = {"gpt", "llama", "t5"}
    assert set(file.packaged()) == {*EXACT, *ROUNDED, *families, "deepbench"}


@pytest.mark.parametrize("name", EXACT)
def test_parameters_are_as_published(name: str) -> None:
    assert counts.parameters(model(name)) == EXACT[name]


@pytest.mark.parametrize("name", ROUNDED)
def test_parameters_are_as_published_in_billions(name: str) -> None:
    published, half_a_digit = ROUNDED[name]
    assert counts.parameters(model(name)) / 1e9 == pytest.approx(published, abs=half_a_digit)


def test_a_shallower_gnmt_is_that_of_mlperf() -> None:
    assert counts.parameters(model("gnmt", depth=4)) == 160_671_297


@pytest.mark.parametrize(
    ("name", "published"),
    [("gpt3-175b", 174.6), ("megatron-8.3b", 8.3), ("mt-nlg-530b", 529.6), ("transformer-1t", 1008.0)],
)
def test_parameters_follow_the_formula_of_megatron(name: str, published: float) -> None:
    """Narayanan et al., SC 2021, equation 2; it leaves out the last norm, 2 h."""
    found = model(name)
    values = {
        key: number.expression.value({})
        for key, number in file.load(name).parameters.items()
        if not number.expression.names
    }
    layers, h, v = values["layers"], values["hidden"], values["vocabulary"]
    formula = 12 * layers * h * h + 13 * layers * h + (v + values["positions"]) * h
    assert counts.parameters(found) == formula + 2 * h
    assert formula / 1e9 == pytest.approx(published, abs=0.05)


@pytest.mark.parametrize(("name", "samples"), [("gpt3-175b", 2), ("transformer-1t", 1), ("megatron-8.3b", 3)])
def test_operations_of_an_iteration_are_those_of_megatron(name: str, samples: int) -> None:
    """Narayanan et al., SC 2021, equation 3: 96 B s l h^2 (1 + s / 6h + V / 16lh) with the layers computed again; the
    logits, 2 B s h V, are not.
    """
    found = model(name, samples, fused=0)
    layers, h, v, s = len(found.layers) - 2, found.hidden, 51200, found.tokens
    published = 96 * samples * s * layers * h * h * (1 + s / (6 * h) + v / (16 * layers * h))
    again = 8 * samples * s * layers * 3 * h * h + 4 * samples * s * s * layers * h
    operations = counts.product_flops(found, "forward", "weight_grad", "input_grad")
    assert operations + again == pytest.approx(published, rel=1e-12)
    # Without that about six operations for each parameter and token, and those of attention.
    attention = 12 * samples * s * s * layers * h
    assert operations - attention == pytest.approx(6 * counts.parameters(found) * samples * s, rel=0.01)


def test_fused_causal_attention_halves_the_operations_of_attention() -> None:
    whole, halved = model("llama3-8b", fused=0), model("llama3-8b", fused=1)
    s, layers, h = whole.tokens, 32, 4096
    forward = counts.product_flops(whole, "forward"), counts.product_flops(halved, "forward")
    assert forward[0] - forward[1] == 2 * layers * s * s * h
    # Backward has five products instead of four, each halved.
    backward = [counts.product_flops(each, "weight_grad", "input_grad") for each in (whole, halved)]
    assert backward[0] - backward[1] == 8 * layers * s * s * h - 5 * layers * s * s * h


def test_deepseek_activates_37_billion() -> None:
    """DeepSeek-V3's report: 37 billion parameters work on a token. Each but the embedding's is two operations."""
    found = model("deepseek-v3", 1, 4096)
    attention = sum(
        k.flops
        for layer in found.layers
        for o, d in zip(layer.operators, demands.of(layer.operators, 2), strict=True)
        if o.kind == "attention"
        for k in d.forward
    )
    per_token = (counts.product_flops(found, "forward") - attention) / 4096
    assert per_token / 2 / 1e9 + 129280 * 7168 / 1e9 == pytest.approx(37.5, abs=0.55)


def test_mixtral_activates_13_billion() -> None:
    """Jiang et al., "Mixtral of Experts": 13 billion active parameters; the embedding does no operations."""
    found = model("mixtral-8x7b", 1, 1024, fused=0)
    layers, h = 32, 4096
    per_token = (counts.product_flops(found, "forward") - 4 * 1024 * 1024 * layers * h) / 1024
    assert per_token / 2 / 1e9 + 32000 * h / 1e9 == pytest.approx(12.9, abs=0.05)


def test_multiply_accumulates_of_image_models() -> None:
    """torchvision's documentation, and 4.09 billion of ResNet-50 v1.5, each with the products of its one image."""
    published = {"alexnet": 714_188_480, "vgg16": 15_470_264_320, "resnet18": 1_814_073_344, "resnet50": 4_089_184_256}
    for name, macs in published.items():
        assert counts.product_flops(model(name), "forward") == 2 * macs, name


def test_deepbench_has_every_shape_once() -> None:
    found = model("deepbench")
    shapes = {tuple(o.sizes.values()) for layer in found.layers for o in layer.operators}
    assert len(found.layers) == len(shapes) == 83
    # Of the published list: rows, inputs, outputs.
    for shape in (
        (7000, 1760, 1760),
        (7133, 4096, 4096),
        (9124, 2560, 5124),
        (8457, 1760, 35),
        (16, 500_000, 1024),
        (48_000, 2816, 8448),
        (32, 1536, 4608),
        (48_000, 1536, 1024),
        (700, 512, 1024),
        (32, 512, 512),
    ):
        assert shape in shapes, shape


def test_shares_of_tensor_parallel_npus_add_up() -> None:
    """Of all operators with parameters, the parts of eight NPUs together have those of the whole, but for what is not
    divided and the biases behind products that are divided by their inputs.
    """
    for name in ("gpt3-175b", "llama3-70b", "mixtral-8x7b"):
        for operator in model(name).layers[1].operators:
            part = operator.divided({"tensor": 8})
            (whole,), (share,) = demands.of([operator], 2), demands.of([part], 2)
            if operator.split.get("tensor") and not operator.sizes.get("bias"):
                assert 8 * share.params == whole.params, operator.name
            assert all(k.flops <= w.flops for k, w in zip(share.forward, whole.forward, strict=True))
    with pytest.raises(
        DivisionError, match=r"attention.core: kv_heads 8 cannot be divided by 16 \(tensor parallelism\)"
    ):
        model("llama3-70b").layers[1].operators[3].divided({"tensor": 16})


def test_context_parallelism_is_left_to_strategies_and_lengths_to_experiments() -> None:
    short, long = model("gpt2", 2, 128), model("gpt2", 2)
    assert (short.tokens, long.tokens, short.samples) == (128, 1024, 2)
    assert short.layers[1].operators[2].sizes["queries"] == 128
    assert counts.parameters(short) == counts.parameters(long)
