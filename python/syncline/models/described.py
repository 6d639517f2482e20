"""Models as the engine takes them for its own strategies, data-parallel and hybrid (`WorkloadSpec` in Rust)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from syncline.models import counts
from syncline.models.form import SUM
from syncline.models.model import Layer, Model, Operator


class NotARecommenderError(ValueError):
    """A model that hybrid parallelism cannot train; the message says why."""


@dataclass(frozen=True, slots=True)
class Tables:
    """The embedding tables of a recommendation model, which are distributed."""

    number: int
    lookups: int
    """Rows of a table that are summed."""
    features: int
    """Elements of a row."""

    def divided(self, npus: int) -> tuple[int, int] | None:
        """Tables, or parts of them, on each of so many NPUs, and the elements of their rows; `None` if that is uneven.

        An NPU has whole tables, or columns of one, or else columns of all of them.
        """
        columns = self.number * self.features
        if self.number % npus == 0:
            return self.number // npus, self.features
        if npus % self.number == 0 and columns % npus == 0:
            return 1, columns // npus
        if self.features % npus == 0:
            return self.number, self.features // npus
        return None

    def accepted(self) -> list[int]:
        """The numbers of NPUs among which they can be divided."""
        most = self.number * self.features
        return [npus for npus in range(1, most + 1) if self.divided(npus) is not None]


def tables(model: Model) -> Tables:
    """The tables of a recommendation model. Raises [`NotARecommenderError`]."""
    found = model.layers[0].operators
    if any(operator.kind != SUM for operator in found):
        raise NotARecommenderError(f"{model.name} has no embedding tables in its first layer")
    if len({(operator.sizes["lookups"], operator.sizes["features"]) for operator in found}) > 1:
        raise NotARecommenderError(f"the tables of {model.name} have different lookups or features")
    first = found[0].sizes
    return Tables(sum(operator.sizes["tables"] for operator in found), first["lookups"], first["features"])


def chain(model: Model, element: int, kernels: str) -> dict[str, Any]:
    """Layers one after the other, with elements of so many bytes. What tied layers share is of the first of them."""
    layers, shared = _layers(model.layers), counts.shared(model)
    for layer in layers:
        if layer["name"] in shared:
            layer["shared"] = shared[layer["name"]]
    return {"source": "layers", "layers": layers, "element_bytes": element, "kernels": kernels}


def recommender(model: Model, npus: int, element: int, kernels: str) -> dict[str, Any]:
    """A recommendation model on one of the NPUs among which its tables are distributed.

    An NPU looks up its part of the tables for the samples of all NPUs, and sends each of them the vectors of its
    samples. The layers are the tables, a bottom MLP, one named `interaction`, and a top MLP. Raises
    [`NotARecommenderError`].
    """
    given = tables(model)
    part = given.divided(npus)
    if part is None:
        raise NotARecommenderError(f"{given.number} tables cannot be divided evenly among {npus} NPUs")
    names = [layer.name for layer in model.layers]
    if "interaction" not in names[2:-1]:
        raise NotARecommenderError(f"{model.name} has no layer named interaction between two MLPs")
    middle = names.index("interaction")
    sizes = {"samples": model.samples * npus, "tables": part[0], "lookups": given.lookups, "features": part[1]}
    embedding = replace(model.layers[0], operators=(Operator(SUM, SUM, sizes),))
    parts = {
        "embedding": _layer(embedding),
        "exchange_bytes": model.samples * given.number * given.features * element,
        "bottom": _layers(model.layers[1:middle]),
        "interaction": _layer(model.layers[middle]),
        "top": _layers(model.layers[middle + 1 :]),
    }
    return {"source": "recommender", "model": parts, "element_bytes": element, "kernels": kernels}


def _layers(layers: Sequence[Layer]) -> list[dict[str, Any]]:
    return [_layer(layer) for layer in layers]


def _layer(layer: Layer) -> dict[str, Any]:
    operators = [{"kind": operator.kind, "sizes": dict(operator.sizes)} for operator in layer.operators]
    return {"name": layer.name, "operators": operators}
