"""Kernels as calls of PyTorch.

An [`Operation`] makes sets of operands, of random numbers (products of zeros draw less power, hence may run at a higher
clock), and is called on one of them. Whatever can be is written into a result that exists before, so that no memory is
allocated in between.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from syncline.sections.shapes import FORWARD, Kernel

Tensors = tuple[Any, ...]


class UnsupportedError(Exception):
    """This PyTorch cannot do it; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Operation:
    """A kernel of PyTorch."""

    operands: Callable[[], Tensors]
    """A new set of operands."""
    call: Callable[[Tensors], object]


def operation(torch: Any, kernel: Kernel, device: str) -> Operation:
    """The call for a kernel. Raises [`UnsupportedError`] if this PyTorch has none."""
    if kernel.kind == "product":
        return _product(torch, kernel, device)
    if kernel.kind == "convolution":
        return _convolution(torch, kernel, device)
    if kernel.kind == "adam":
        return _adam(torch, kernel, device)
    if kernel.kind == "copy":
        return _copy(torch, kernel, device)
    if kernel.kind == "launch":
        return Operation(lambda: (torch.ones(1, device=device),), lambda given: given[0].add_(1))
    inputs, forward = _function(torch, kernel, device)
    if kernel.direction == FORWARD:
        return Operation(inputs, lambda given: forward(*given))
    return _gradient(torch, inputs, forward)


def type_of(torch: Any, dtype: str) -> Any:
    """The data type of PyTorch; that of TF32 is FP32."""
    names = {"fp64": "float64", "fp32": "float32", "tf32": "float32", "fp16": "float16", "bf16": "bfloat16"}
    return getattr(torch, names[dtype])


def _random(torch: Any, kernel: Kernel, device: str) -> Callable[..., Any]:
    dtype = type_of(torch, kernel.dtype)
    return lambda *sizes: torch.randn(*sizes, device=device, dtype=dtype)


def _images(torch: Any, kernel: Kernel, device: str) -> Callable[..., Any]:
    """Random images, or filters, as they lie in memory."""
    random = _random(torch, kernel, device)
    if kernel.layout == "nchw":
        return random
    return lambda *sizes: random(*sizes).contiguous(memory_format=torch.channels_last)


def _product(torch: Any, kernel: Kernel, device: str) -> Operation:
    """A product with its factors in memory as a linear layer has them: `y = x wT`, `dx = dy w`, `dw = dyT x`."""
    random = _random(torch, kernel, device)
    m, k, n, count = kernel.m, kernel.k, kernel.n, kernel.count
    if count > 1:
        return Operation(
            lambda: (random(count, m, k), random(count, k, n), random(count, m, n)),
            lambda given: torch.bmm(given[0], given[1], out=given[2]),
        )
    if kernel.direction == FORWARD:
        return Operation(
            lambda: (random(m, k), random(n, k), random(m, n)),
            lambda given: torch.mm(given[0], given[1].t(), out=given[2]),
        )
    if kernel.direction == "input-grad":
        return Operation(
            lambda: (random(m, k), random(k, n), random(m, n)),
            lambda given: torch.mm(given[0], given[1], out=given[2]),
        )
    # The gradient of the weights has a row for each output, which are the columns of the product.
    return Operation(
        lambda: (random(k, m), random(k, n), random(n, m)),
        lambda given: torch.mm(given[1].t(), given[0], out=given[2]),
    )


def _convolution(torch: Any, kernel: Kernel, device: str) -> Operation:
    """A convolution, or one of its gradients alone, as autograd asks the backend for it."""
    random = _images(torch, kernel, device)
    (images, channels, filters), side = kernel.convolved, kernel.window
    stride, padding = [kernel.stride] * 2, [kernel.padding] * 2

    def operands() -> Tensors:
        image = random(images, channels, kernel.height, kernel.width)
        return image, random(filters, channels, side, side), random(images, filters, *kernel.windows)

    if kernel.direction == FORWARD:
        convolve = torch.nn.functional.conv2d
        return Operation(operands, lambda given: convolve(given[0], given[1], stride=stride, padding=padding))
    wanted = [kernel.direction == "input-grad", kernel.direction == "weight-grad", False]  # of input, weights, bias
    backward = torch.ops.aten.convolution_backward
    # Sizes of a bias, stride, padding, dilation, not transposed, padding of the output, groups.
    rest = ([0], stride, padding, [1, 1], False, [0, 0], 1, wanted)
    return Operation(operands, lambda given: backward(given[2], given[0], given[1], *rest))


def _adam(torch: Any, kernel: Kernel, device: str) -> Operation:
    def operands() -> Tensors:
        weight = torch.nn.Parameter(torch.randn(kernel.m, device=device))
        weight.grad = torch.randn(kernel.m, device=device)
        on_gpu = {"fused": True, "capturable": True} if device.startswith("cuda") else {}
        optimiser = torch.optim.AdamW([weight], lr=1e-4, **on_gpu)
        optimiser.step()  # makes the moments
        return (optimiser,)

    return Operation(operands, lambda given: given[0].step())


def _copy(torch: Any, kernel: Kernel, device: str) -> Operation:
    def operands() -> Tensors:
        source = torch.randint(0, 255, (kernel.m,), dtype=torch.uint8, device=device)
        return source, torch.empty_like(source)

    return Operation(operands, lambda given: given[1].copy_(given[0]))


def _function(torch: Any, kernel: Kernel, device: str) -> tuple[Callable[[], Tensors], Callable[..., Any]]:
    """What makes the inputs, and the function of them."""
    random = _random(torch, kernel, device)
    functional = torch.nn.functional
    m, n = kernel.m, kernel.n

    def one() -> Tensors:
        return (random(m, n),)

    def two() -> Tensors:
        return random(m, n), random(m, n)

    def rows_of(number: int) -> Any:
        return torch.randint(0, number, (m,), device=device)

    kind = kernel.kind
    if kind.startswith("attention"):
        return _attention(torch, kernel, device)
    if kind == "layer-norm":
        return lambda: (random(m, n), random(n), random(n)), lambda x, w, b: functional.layer_norm(x, (n,), w, b)
    if kind == "rms-norm":
        if not hasattr(functional, "rms_norm"):
            raise UnsupportedError("torch.nn.functional.rms_norm is missing; PyTorch 2.4 has it")
        return lambda: (random(m, n), random(n)), lambda x, w: functional.rms_norm(x, (n,), w)
    if kind == "batch-norm":
        image = _images(torch, kernel, device)
        return (
            lambda: (image(m, n, kernel.k, 1), random(n), random(n)),
            lambda x, w, b: functional.batch_norm(x, None, None, w, b, training=True),
        )
    if kind in ("max-pool", "average-pool"):
        image = _images(torch, kernel, device)

        def images() -> Tensors:
            return (image(m, n, kernel.height, kernel.width),)

        if kind == "average-pool":
            return images, lambda x: functional.adaptive_avg_pool2d(x, 1)
        window = {"kernel_size": kernel.window, "stride": kernel.stride, "padding": kernel.padding}
        return images, lambda x: functional.max_pool2d(x, **window)
    if kind == "relu":
        return one, functional.relu
    if kind == "softmax":
        return one, lambda x: functional.softmax(x, dim=-1)
    if kind == "gelu":
        return one, lambda x: functional.gelu(x, approximate="tanh")
    if kind == "swiglu":
        return two, lambda gate, x: functional.silu(gate) * x
    if kind == "dropout":
        return one, lambda x: functional.dropout(x, 0.1)
    if kind == "add":
        return two, torch.add
    if kind == "cross-entropy":
        return lambda: (random(m, n), rows_of(n)), functional.cross_entropy
    if kind == "embedding":
        return lambda: (random(kernel.k, n), rows_of(kernel.k)), lambda table, rows: functional.embedding(rows, table)
    raise AssertionError(kind)


def _attention(torch: Any, kernel: Kernel, device: str) -> tuple[Callable[[], Tensors], Callable[..., Any]]:
    random = _random(torch, kernel, device)
    functional = torch.nn.functional
    m, k, n, heads, groups = kernel.m, kernel.k, kernel.n, kernel.count, kernel.groups
    keys = heads // groups
    if kernel.kind == "attention-plain":

        def plain(q: Any, key: Any, value: Any) -> Any:
            key, value = (
                (key.repeat_interleave(groups, 0), value.repeat_interleave(groups, 0)) if groups > 1 else (key, value)
            )
            scores = torch.baddbmm(q.new_zeros(()), q, key.transpose(1, 2), beta=0, alpha=k**-0.5)
            return torch.bmm(functional.softmax(scores, dim=-1), value)

        return lambda: (random(heads, m, k), random(keys, n, k), random(keys, n, k)), plain
    if not hasattr(functional, "scaled_dot_product_attention"):
        raise UnsupportedError("torch.nn.functional.scaled_dot_product_attention is missing; PyTorch 2.0 has it")
    causal = kernel.kind == "attention-causal"
    shared = {"enable_gqa": True} if groups > 1 else {}  # PyTorch 2.5

    def fused(q: Any, key: Any, value: Any) -> Any:
        return functional.scaled_dot_product_attention(q, key, value, is_causal=causal, **shared)

    # All heads are heads of one sample.
    return lambda: (random(1, heads, m, k), random(1, keys, n, k), random(1, keys, n, k)), fused


def _gradient(torch: Any, inputs: Callable[[], Tensors], forward: Callable[..., Any]) -> Operation:
    """The backward pass of a function alone: its forward pass belongs to the operands."""

    def operands() -> Tensors:
        given = inputs()
        learned = tuple(x.requires_grad_() for x in given if x.is_floating_point())
        result = forward(*given)
        return result, learned, torch.randn_like(result)

    return Operation(operands, lambda given: torch.autograd.grad(given[0], given[1], given[2], retain_graph=True))
