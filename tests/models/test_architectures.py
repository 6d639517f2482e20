"""Models that come with the package against their architectures, by hand."""

from __future__ import annotations

from math import prod

import pytest

from syncline.models import counts, demands, described, file
from syncline.models.demands import Kernel
from syncline.models.described import NotARecommenderError
from syncline.models.evaluate import evaluate
from syncline.models.model import Layer, Model, Operator

MIB = 1 << 20


def model(name: str, samples: int = 1, sequence: int | None = None) -> Model:
    return evaluate(file.load(name), samples, sequence)


def parameters(layer: Layer) -> int:
    return sum(demand.params for demand in demands.of(layer.operators, 2))


def outgoing(found: Model) -> dict[str, int]:
    """Elements that leave each layer."""
    return {layer.name: demands.of(layer.operators, 2)[-1].output_elements for layer in found.layers}


@pytest.mark.parametrize(
    ("name", "layers"), [("alexnet", 8), ("vgg16", 16), ("resnet18", 21), ("resnet50", 54), ("gnmt", 19)]
)
def test_every_layer_has_parameters(name: str, layers: int) -> None:
    found = model(name)
    assert len(found.layers) == layers
    assert all(parameters(layer) > 0 for layer in found.layers)


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        # Channels and side of what leaves each layer, behind its pool.
        ("alexnet", [(64, 27), (192, 13), (384, 13), (256, 13), (256, 6)]),
        (
            "vgg16",
            [
                *[(64, 224), (64, 112), (128, 112), (128, 56), (256, 56), (256, 56), (256, 28)],
                *[(512, 28), (512, 28), (512, 14), (512, 14), (512, 14), (512, 7)],
            ],
        ),
    ],
)
def test_shapes_on_the_way_through_plain_networks(name: str, shapes: list[tuple[int, int]]) -> None:
    found = model(name, 2)
    elements = [2 * channels * side * side for channels, side in shapes] + [2 * 4096, 2 * 4096]
    assert list(outgoing(found).values())[:-1] == elements
    entered = [demands.of(layer.operators, 2)[0].input_elements for layer in found.layers]
    assert entered == [2 * 3 * 224 * 224, *elements]
    # Nearly all parameters are in the layer behind the last pool, which is what makes these networks communicate.
    (behind,) = [layer for layer in found.layers if layer.name == "fc6"]
    assert int(100 * parameters(behind) / counts.parameters(found)) == {"alexnet": 61, "vgg16": 74}[name]


def test_shapes_on_the_way_through_resnet50() -> None:
    found = outgoing(model("resnet50", 32))
    names = ["conv1", "layer1.0.conv1", "layer1.0.conv2", "layer1.0.conv3", "layer1.0.downsample"]
    assert list(found)[:5] == names
    shapes = {
        "conv1": (64, 56, 56),  # behind its pool
        "layer1.2.conv3": (256, 56, 56),
        "layer2.0.conv1": (128, 56, 56),  # v1.5: the stride is in conv2
        "layer2.0.conv2": (128, 28, 28),
        "layer2.0.downsample": (512, 28, 28),
        "layer3.5.conv3": (1024, 14, 14),
        "layer4.2.conv1": (512, 7, 7),
        "layer4.2.conv3": (2048, 1, 1),  # behind its pool
    }
    assert {name: found[name] for name in shapes} == {name: 32 * prod(shape) for name, shape in shapes.items()}


def test_training_resnet50_is_bound_by_memory() -> None:
    """32 samples in FP16, without updates: 784 GFLOP and 15.4 GB, as `crates/workload/src/operators.rs` says."""
    kernels: list[Kernel] = []
    for layer in model("resnet50", 32).layers:
        for number, demand in enumerate(demands.of(layer.operators, 2)):
            kernels += demand.forward + demand.weight_grad
            # Nobody needs the gradient of the images.
            kernels += () if (layer.name, number) == ("conv1", 0) else demand.input_grad
    assert sum(kernel.flops for kernel in kernels) / 1e9 == pytest.approx(784, abs=0.5)
    assert sum(kernel.bytes for kernel in kernels) / 1e9 == pytest.approx(15.4, abs=0.05)


def test_gnmt_has_its_attention_behind_the_first_decoder_layer() -> None:
    names = [layer.name for layer in model("gnmt").layers]
    assert names[:3] == ["embedding", "encoder.0", "encoder.1"]
    assert names[8:12] == ["encoder.7", "decoder.0", "attention", "decoder.1"]
    assert names[18] == "projection"


def test_multiply_accumulates_of_gnmt() -> None:
    """Per token, every weight but the embedding's works once, those of the attention's keys and queries on their side;
    the scores and contexts come on top.
    """
    samples, steps = 4, 10
    tokens = samples * steps

    def lstm(inputs: int) -> int:
        return tokens * 4096 * (inputs + 1024)

    encoder = 2 * lstm(1024) + lstm(2048) + 6 * lstm(1024)
    decoder = lstm(1024) + 7 * lstm(2048)
    attention = tokens * (2 * 1024 * 1024 + 2 * steps * 1024)
    projection = tokens * 1024 * 32_320
    found = counts.product_flops(model("gnmt", samples, steps), "forward")
    assert found == 2 * (encoder + decoder + attention + projection)


def test_the_attention_of_gnmt_grows_with_the_square_of_the_sequence() -> None:
    def moved(steps: int, name: str) -> int:
        (layer,) = [layer for layer in model("gnmt", 8, steps).layers if layer.name == name]
        return sum(kernel.bytes for demand in demands.of(layer.operators, 2) for kernel in demand.forward)

    assert 1.9 <= moved(200, "encoder.4") / moved(100, "encoder.4") <= 2
    assert 3.9 <= moved(2000, "attention") / moved(1000, "attention") <= 4


def test_layers_of_dlrm_have_the_published_sizes() -> None:
    """HOTI 2020, table V: 16.2 MiB and 8 MiB of weights in FP16; 4 MiB are exchanged for 512 samples."""
    found = model("dlrm", 512)
    sizes = {layer.name: 2 * parameters(layer) / MIB for layer in found.layers}
    top = [size for name, size in sizes.items() if name.startswith("top.")]
    assert (top[0], top[1:11], len(top)) == (16.25, [8.0] * 10, 12)
    assert top[11] < 0.01
    bottom = [parameters(layer) for layer in found.layers if layer.name.startswith("bottom.")]
    assert bottom == [1600 * 1024, *[1024 * 1024] * 5, 1024 * 64]
    assert described.recommender(found, 128, 2, "all")["model"]["exchange_bytes"] == 4 * MIB


def test_npus_share_the_lookups_of_dlrm() -> None:
    """All NPUs together look up every vector of every sample once, however the tables are split."""
    found = model("dlrm", 512)
    vectors, summed = 512 * 64 * 60, 512 * 64 * 64 * 2

    def moved(npus: int) -> tuple[int, int]:
        (operator,) = described.recommender(found, npus, 2, "all")["model"]["embedding"]["operators"]
        (demand,) = demands.of([Operator("embedding", operator["kind"], operator["sizes"])], 2)
        (lookup,), (apply,) = demand.forward, demand.weight_grad
        return lookup.bytes, apply.bytes

    for npus in (1, 2, 64):
        # Rows are read with their indices; to apply gradients they are read and written.
        assert moved(npus) == (vectors * (64 * 2 + 8) + summed, vectors * (2 * 64 * 2 + 8) + summed), npus
    # Two NPUs for each table: half a row each, but both read the index.
    assert moved(128)[0] == vectors * (64 * 2 + 2 * 8) + summed
    assert moved(4096)[0] == vectors * (64 * 2 + 64 * 8) + summed


def test_tables_that_do_not_divide_are_refused() -> None:
    found = model("dlrm")
    for npus in (3, 96, 8192):
        with pytest.raises(NotARecommenderError, match=f"64 tables cannot be divided evenly among {npus} NPUs"):
            described.recommender(found, npus, 2, "all")
