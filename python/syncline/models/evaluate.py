"""Evaluates a model file for a micro-batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from syncline.base.document import Origin
from syncline.base.errors import InputError, did_you_mean, one_of
from syncline.core import facts
from syncline.models import counts, demands
from syncline.models.expressions import Expression, ExpressionError
from syncline.models.form import GroupForm, LayerForm, ModelFile, Name, Number, OperatorForm, Repeat
from syncline.models.model import Layer, Model, Operator

MOST_LAYERS: Final = 20_000
MOST_OPERATORS: Final = 200_000
"""What a model may have of both."""
LEAST_ELEMENT: Final = 1
"""Bytes of elements for which operators are checked: fewest, so that only sizes beyond all bounds are refused."""


class ParameterError(ValueError):
    """A parameter or a length of sequences that was asked for and cannot be.

    `name` is the parameter, or `sequence`; `accepted` says what is accepted in its place.
    """

    def __init__(self, name: str, message: str, accepted: str) -> None:
        super().__init__(f"{name}: {message}; accepted: {accepted}")
        self.name, self.message, self.accepted = name, message, accepted


def evaluate(
    file: ModelFile, samples: int, sequence: int | None = None, parameters: Mapping[str, int] | None = None
) -> Model:
    """The model for a micro-batch of so many samples, of sequences of so many tokens.

    Raises [`ParameterError`] for a parameter that the model does not have, and [`InputError`], with places in the file,
    for sizes that it cannot have.
    """
    return _Evaluation(file).model(samples, sequence, parameters or {})


@dataclass(slots=True)
class _Evaluation:
    file: ModelFile
    layers: list[Layer] = field(default_factory=list)
    operators: int = 0
    repetitions: int = 0
    places: dict[tuple[str, tuple[tuple[str, int], ...]], tuple[Operator, Origin]] = field(default_factory=dict)
    """Operators that are different, and where the first of each kind and sizes is written."""
    known: dict[tuple[int, tuple[int, ...]], tuple[Operator, ...]] = field(default_factory=dict)
    """Operators of layers, by the layer's form and the values on which they depend."""

    def model(self, samples: int, sequence: int | None, parameters: Mapping[str, int]) -> Model:
        file = self.file
        values = self._given(samples, sequence, parameters)
        for entry in file.layers:
            self._entry(entry, values)
        self._check()
        self._check_tied()
        hidden = 0 if file.hidden is None else _value(file.hidden, values)
        tokens = values.get("sequence", 1)
        return Model(file.name, tuple(self.layers), tokens, samples, hidden, file.tied)

    def _given(self, samples: int, sequence: int | None, parameters: Mapping[str, int]) -> dict[str, int]:
        """What names stand for before there are layers."""
        file = self.file
        for name in parameters:
            if name not in file.parameters:
                message = f"{file.name} has no such parameter{did_you_mean(name, file.parameters)}"
                raise ParameterError(name, message, one_of(file.parameters) or "none")
        values = {"samples": samples}
        for name, number in file.parameters.items():
            values[name] = parameters[name] if name in parameters else _value(number, values)
        if file.sequence is None:
            if sequence is not None:
                raise ParameterError("sequence", f"samples of {file.name} are no sequences", "no sequence")
            return values | {"tokens": samples}
        length = _value(file.sequence, values) if sequence is None else sequence
        if length < 1:
            raise ParameterError("sequence", f"sequences of {length} tokens", "1 token or more")
        return values | {"sequence": length, "tokens": samples * length}

    def _entry(self, entry: LayerForm | GroupForm, values: Mapping[str, int]) -> None:
        for within in _repeated(entry.repeat, values):
            self.repetitions += 1
            if self.repetitions > MOST_OPERATORS:
                raise InputError(
                    [entry.origin.problem(f"there are more than {MOST_OPERATORS} repetitions", None, "fewer")]
                )
            inner = dict(within)
            for name, number in entry.let.items():
                inner[name] = _value(number, inner)
            if isinstance(entry, LayerForm):
                self._layer(entry, inner)
            else:
                for layer in entry.layers:
                    self._entry(layer, inner)

    def _layer(self, form: LayerForm, values: Mapping[str, int]) -> None:
        key = (id(form), tuple(values.get(name, 0) for name in sorted(form.names)))
        if key not in self.known:
            self.known[key] = tuple(self._operators(form, values))
        operators = self.known[key]
        self.operators += len(operators)
        if len(self.layers) >= MOST_LAYERS or self.operators > MOST_OPERATORS:
            message = f"there are more than {MOST_LAYERS} layers or {MOST_OPERATORS} operators"
            raise InputError([form.origin.problem(message, None, "fewer")])
        name = _name(form.name, values)
        self.layers.append(Layer(name, operators, form.block))

    def _operators(self, form: LayerForm, values: Mapping[str, int]) -> Iterator[Operator]:
        for operator in form.operators:
            if operator.when is None or _value(operator.when, values) != 0:
                yield self._operator(operator, values)

    def _operator(self, form: OperatorForm, values: Mapping[str, int]) -> Operator:
        sizes: dict[str, int] = {}
        for name, size in facts.engine().operators[form.kind].sizes.items():
            number = form.sizes.get(name)
            if number is None:
                continue
            value = _value(number, values)
            if not size.least <= value <= size.most:
                message = f"{name} is {value}"
                raise InputError([number.origin.problem(message, None, f"{size.least} to {size.most}")])
            sizes[name] = value
        operator = Operator(form.name, form.kind, sizes, form.split)
        self.places.setdefault((form.kind, tuple(sizes.items())), (operator, form.origin))
        return operator

    def _check_tied(self) -> None:
        """Refuses layers that cannot be tied: the second of a pair has the table of the first one."""
        origin = self.file.origin.below("tied", self.file.origin.line)
        layers = {layer.name: layer for layer in self.layers}
        for name in (name for pair in self.file.tied for name in pair):
            if name not in layers:
                message = f"there is no layer {name!r}{did_you_mean(name, layers)}"
                raise InputError([origin.problem(message, None, "names of layers")])
        accepted = "pairs of layers, of which the first one has an embedding, and the second one no fewer parameters"
        for first, second in self.file.tied:
            table, own = counts.of_layer(layers[first], counts.TABLES), counts.of_layer(layers[second])
            wrong = None
            if first == second:
                wrong = "this is one layer"
            elif table == 0:
                wrong = f"{first} has no embedding"
            elif table > own:
                wrong = f"the embedding of {first} has {table:,} parameters, and {second} has {own:,}"
            if wrong is not None:
                raise InputError([origin.problem(wrong, f"[{first}, {second}]", accepted)])

    def _check(self) -> None:
        """Asks the engine whether there can be such operators, and such layers."""
        origin = self.file.origin
        if not self.layers:
            raise InputError([origin.below("layers", origin.line).problem("there are no layers", None, "1 or more")])
        names: set[str] = set()
        for layer in self.layers:
            if layer.name in names:
                message = f"two layers are named {layer.name}"
                accepted = "a name for each, with the number of a repetition in braces"
                raise InputError([origin.below("layers", origin.line).problem(message, None, accepted)])
            names.add(layer.name)
        for operator, place in self.places.values():
            try:
                demands.of([operator], LEAST_ELEMENT)
            except demands.OperatorError as error:
                at = place.below(error.size, place.line) if error.size else place
                raise InputError([at.problem(error.message, None, error.accepted)]) from None


def _repeated(repeat: Repeat | None, values: Mapping[str, int]) -> Iterator[Mapping[str, int]]:
    """The values of names in each repetition."""
    if repeat is None:
        yield values
        return
    count = _value(repeat.count, values)
    if not 0 <= count <= MOST_LAYERS:
        raise InputError([repeat.count.origin.problem(f"repeated {count} times", None, f"0 to {MOST_LAYERS}")])
    for index in range(count):
        yield {**values, repeat.index: index}


def _name(name: Name, values: Mapping[str, int]) -> str:
    numbers = [str(_of(expression, name.origin, values)) for expression in name.expressions]
    return "".join(text + number for text, number in zip(name.texts, [*numbers, ""], strict=True))


def _value(number: Number, values: Mapping[str, int]) -> int:
    return _of(number.expression, number.origin, values)


def _of(expression: Expression, origin: Origin, values: Mapping[str, int]) -> int:
    try:
        return expression.value(values)
    except ExpressionError as error:
        raise InputError([origin.problem(error.message, expression.text, error.accepted)]) from None
