"""What FSDP copies on an NPU before and behind its collectives (ZeRO 3).

PyTorch's `fully_shard` (`torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py`) gathers the parameters of a layer
in one buffer and scatters their gradients from another one. Per parameter, with w bytes of a weight as it is stored,
e as it is computed with, and g of a gradient as it is exchanged:

    before the all-gather          of the NPU's part: a cast, w + e, where the types differ; a copy into the buffer, 2 e
    behind the all-gather          of all: a copy out of the buffer, 2 e (`split_with_sizes_copy`)
    before the reduce-scatter      of all: a copy into the buffer, with a cast to a wider type, e + g (`chunk_cat`); to
                                   a narrower one that is a kernel of its own, 2 e + (e + g)

These kernels are on the stream of compute, but for those of the NPU's part in PyTorch, which have a stream of their
own; they are small. What is done with the part of the gradients that comes back is beside compute, and not counted.
ZeRO 1 and 2, as Megatron-LM has them, exchange buffers in which weights and gradients always are.
"""

from __future__ import annotations

from syncline.models import demands
from syncline.sections.data_types import WIDE
from syncline.strategies.costs import Kernels
from syncline.strategies.setting import GATHERING, Setting
from syncline.strategies.weights import Weights


def before_gather(setting: Setting, weights: Weights) -> Kernels:
    """What puts an NPU's part of these weights into the buffer from which it is gathered."""
    part = sum(-(-n // setting.copies(family)) for family, n in setting.parts(weights) if _is_divided(setting, family))
    stored, computed = setting.weight, setting.element
    cast = _moved(part * (stored + computed), "cast", max(stored, computed)) if stored != computed else ()
    return cast + _moved(2 * part * computed, "elementwise", computed)


def behind_gather(setting: Setting, weights: Weights) -> Kernels:
    """What puts weights that have been gathered into the parameters of a layer."""
    return _moved(2 * _whole(setting, weights) * setting.element, "elementwise", setting.element)


def before_scatter(setting: Setting, weights: Weights) -> Kernels:
    """What puts the gradients of these weights into the buffer from which they are scattered."""
    whole, computed, exchanged = _whole(setting, weights), setting.element, setting.gradient
    widest = max(computed, exchanged)
    if exchanged < computed:
        copied = _moved(2 * whole * computed, "elementwise", computed)
        return copied + _moved(whole * (computed + exchanged), "cast", widest)
    return _moved(whole * (computed + exchanged), "elementwise", widest)


def _is_divided(setting: Setting, family: str) -> bool:
    return setting.parallel.zero == GATHERING and setting.copies(family) > 1


def _whole(setting: Setting, weights: Weights) -> int:
    """Parameters that are gathered of these."""
    return sum(n for family, n in setting.parts(weights) if _is_divided(setting, family))


def _moved(size: int, kernel: str, widest: int) -> Kernels:
    return (demands.traffic(size, kernel, wide=widest >= WIDE),) if size else ()
