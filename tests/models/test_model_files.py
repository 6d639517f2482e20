"""Model files: what they can say, and what is said of those that are wrong."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from syncline.base.errors import InputError
from syncline.models import demands, expressions, file
from syncline.models.evaluate import ParameterError, evaluate
from syncline.models.expressions import ExpressionError
from syncline.models.model import Operator

DOCS = Path(__file__).parents[2] / "docs" / "models.md"
TINY = """\
name: tiny
description: two layers
source: nowhere
parameters: {hidden: 8, layers: 2}
sequence: 4
layers:
  - name: block
    repeat: layers
    operators:
      - {kind: linear, rows: tokens, inputs: hidden, outputs: 3 * hidden}
      - {kind: gelu, rows: tokens, features: 3 * hidden, when: index > 0}
"""


def problems(text: str) -> list[str]:
    """What is wrong with a file, each in a line."""
    with pytest.raises(InputError) as wrong:
        evaluate(file.read(text, "m.yaml"), 1)
    return [" | ".join(line.strip() for line in str(problem).splitlines()) for problem in wrong.value.problems]


def test_a_file_becomes_a_model() -> None:
    found = evaluate(file.read(TINY, "m.yaml"), 3, parameters={"hidden": 16})
    assert [layer.name for layer in found.layers] == ["block.0", "block.1"]
    assert [len(layer.operators) for layer in found.layers] == [1, 2]
    assert found.layers[0].operators[0].sizes == {"rows": 12, "inputs": 16, "outputs": 48}
    assert (found.tokens, found.samples, found.hidden) == (4, 3, 0)


def test_the_example_of_the_documentation_is_a_model() -> None:
    text = DOCS.read_text().split('```yaml title="tiny.yaml"\n')[1].split("```")[0]
    found = evaluate(file.read(text, "docs"), 2)
    assert [layer.name for layer in found.layers] == ["embedding", "block.0", "block.1", "block.2", "block.3", "head"]
    assert found.tied == (("embedding", "head"),)


def test_files_can_be_sent_to_other_processes() -> None:
    for name in ("gpt2", "resnet50", "gnmt"):
        found = file.load(name)
        assert evaluate(pickle.loads(pickle.dumps(found)), 2) == evaluate(found, 2)


def test_equal_layers_share_their_operators() -> None:
    found = evaluate(file.load("gpt3-175b"), 1)
    assert found.layers[1].operators is found.layers[96].operators


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            ("outputs: 3", "output: 3"),
            "m.yaml:10: layers.0.operators.0.output: this key is not known; did you mean 'outputs'?",
        ),
        (
            ("kind: gelu", "kind: gelo"),
            "m.yaml:11: layers.0.operators.1.kind: no kind of operators is named so; did you mean",
        ),
        (("inputs: hidden, ", ""), "m.yaml:10: layers.0.operators.0.inputs: this size of linear is missing"),
        (
            ("3 * hidden}", "3 * hiden}"),
            "m.yaml:10: layers.0.operators.0.outputs: nothing is named 'hiden'; did you mean 'hidden'?",
        ),
        (
            ("3 * hidden}", "hidden / 3}"),
            "m.yaml:10: layers.0.operators.0.outputs: 8 / 3 is no whole number (with hidden = 8)",
        ),
        (
            ("3 * hidden}", "hidden - 8}"),
            "m.yaml:10: layers.0.operators.0.outputs: outputs is 0 | accepted: 1 to 4294967295",
        ),
        (("3 * hidden}", "2.5}"), "m.yaml:10: layers.0.operators.0.outputs: this is no whole number | given: 2.5"),
        (("3 * hidden}", "__import__('os')}"), "m.yaml:10: layers.0.operators.0.outputs: this is no expression"),
        (("3 * hidden}", "hidden.real}"), "m.yaml:10: layers.0.operators.0.outputs: this is no expression"),
        (("repeat: layers", "repeat: 10**6"), "m.yaml:8: layers.0.repeat: repeated 1000000 times"),
        (("repeat: layers", "repeat: 0"), "m.yaml:1: layers: there are no layers"),
        (("name: block", "name: block{0}"), "two layers are named block0"),
        (("sequence: 4", "sequenze: 4"), "m.yaml:5: sequenze: this key is not known; did you mean 'sequence'?"),
        (("sequence: 4", "tied: [[block.0, head]]"), "there is no layer 'head'"),
        (("sequence: 4", "tied: [[block.0, block.1]]"), "tied: block.0 has no embedding"),
        (("sequence: 4", "tied: [[block.0, block.0]]"), "tied: this is one layer"),
        (("source: nowhere", "like: gpt"), "m.yaml:6: layers: a model that is like another one has its layers"),
        (("hidden: 8", "tokens: 8"), "m.yaml:4: parameters.tokens: this cannot be a name"),
        (("outputs: 3 * hidden}", "outputs: 8, split: {tensor: output}}"), "linear has no such size"),
        (("outputs: 3 * hidden}", "outputs: 8, split: {tensors: outputs}}"), "did you mean 'tensor'?"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(change: tuple[str, str], said: str) -> None:
    assert any(said in problem for problem in problems(TINY.replace(*change))), problems(TINY.replace(*change))


def test_several_mistakes_are_said_at_once() -> None:
    text = (
        TINY.replace("inputs: hidden", "input: hidden")
        .replace("kind: gelu", "kind: tanhh")
        .replace("name: tiny", "nam: tiny")
    )
    assert len(problems(text)) >= 4


def test_rules_between_sizes_are_the_engines() -> None:
    text = TINY.replace(
        "{kind: linear, rows: tokens, inputs: hidden, outputs: 3 * hidden}",
        "{kind: attention, sequences: samples, heads: 6, kv_heads: 4, queries: 2, head_size: 2}",
    )
    assert problems(text) == [
        "m.yaml:10: layers.0.operators.0: 6 heads share the keys of 4 | accepted: kv_heads that divide 6"
    ]


def test_a_model_can_be_like_another_one(tmp_path: Path) -> None:
    wide = "name: wide\ndescription: wider\nsource: nowhere\nlike: gpt\nparameters: {hidden: 1536}\nsequence: 7\n"
    (tmp_path / "wide.yaml").write_text(wide)
    found = evaluate(file.load("wide.yaml", tmp_path), 1)
    assert (found.name, found.tokens, found.hidden, found.layers[1].operators[1].sizes["outputs"]) == (
        "wide",
        7,
        1536,
        4608,
    )
    for change, said in (
        (("hidden", "hiden"), "m.yaml:5: parameters.hiden: this key is not known; did you mean 'hidden'?"),
        (
            ("like: gpt", "like: gtp"),
            "m.yaml:4: like: no model that comes with the package is named so; did you mean 'gpt'?",
        ),
        (("sequence: 7", "layers: []"), "m.yaml:6: layers: a model that is like another one has its layers"),
    ):
        assert any(said in problem for problem in problems(wide.replace(*change))), problems(wide.replace(*change))
    with pytest.raises(InputError, match="no model is named 'gtp2'; did you mean 'gpt2'"):
        file.load("gtp2")


def test_parameters_that_there_are_not_are_refused() -> None:
    with pytest.raises(
        ParameterError, match=r"gpt2 has no such parameter; did you mean 'hidden'\?; accepted: layers, hidden"
    ):
        evaluate(file.load("gpt2"), 1, parameters={"hiden": 3})
    with pytest.raises(ParameterError, match="samples of resnet50 are no sequences"):
        evaluate(file.load("resnet50"), 1, 20)
    with pytest.raises(ParameterError, match="sequences of 0 tokens"):
        evaluate(file.load("gnmt"), 1, 0)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("4 * a", 12), ("-a", -3), ("a ** 3 - 1", 26), ("7 // 2", 3), ("7 % 4", 3), ("a / 3", 1), ("(1 + 2) * a", 9),
        ("1 if a > 2 and b == 0 else 5", 1), ("a < 3 or not b", 1), ("min(a, 2)", 2), ("max(a, b, 7)", 7),
        ("choose(b, 4, 5)", 4), ("a >= 3", 1), (12, 12), (True, 1),
    ],
)  # fmt: skip
def test_expressions_have_the_values_of_python(text: object, value: int) -> None:
    assert expressions.read(text).value({"a": 3, "b": 0}) == value


@pytest.mark.parametrize(
    "text",
    ["", " ", "a.b", "a[0]", "'a'", "a(", "f(1, 2)", "min(1)", "max(a)", "lambda: 1", "1_000", "0x10", "1e3", "1.5",
     "a := 1", "a if b", "1 < 2 < 3", "min(*a, 1)", "min(1, key=2)", "(" * 200, "-" * 399 + "1", "9" * 100, "2 ** 64",
     "2 ** -1", "9223372036854775807 + 1", "a / 0", "a // b", "a % b", "choose(2, 1, 1)", "10 ** 63", None, 2.5, [1],
     "True", "1and 2"],
)  # fmt: skip
def test_what_is_no_expression_is_refused(text: object) -> None:
    with pytest.raises(ExpressionError):
        expressions.read(text).value({"a": 3, "b": 0})


@settings(max_examples=300, deadline=None)
@given(st.text(st.sampled_from("ab019+-*/%<>=!(), ifelsndormchx_"), max_size=40))
def test_no_expression_does_more_than_have_a_value(text: str) -> None:
    try:
        value = expressions.read(text).value({"a": 3, "b": 0})
    except ExpressionError:
        return
    assert isinstance(value, int)
    assert abs(value) <= expressions.MOST


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_damaged_files_are_refused_or_read(data: st.DataObject) -> None:
    """Letters of a file are replaced, dropped or repeated: there is a model, or an error with a place."""
    text = data.draw(
        st.sampled_from([TINY, (file.FOLDER / "resnet18.yaml").read_text(), (file.FOLDER / "llama.yaml").read_text()])
    )
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text) - 1))
        length = data.draw(st.integers(0, 8))
        put = data.draw(st.text(st.sampled_from("{}[]:,#-*&!|>'\"\n 019az/"), max_size=4))
        text = text[:at] + put + text[at + length :]
    try:
        evaluate(file.read(text, "m.yaml"), 1)
    except InputError as error:
        assert error.problems
        assert all(problem.file == "m.yaml" for problem in error.problems)


def test_repetitions_without_layers_end() -> None:
    inner = "layers:\n  - repeat: 20000\n    layers:\n      - repeat: 20000\n        layers:\n"
    inner += "          - name: a\n            repeat: 0\n            operators:\n"
    inner += "              - {kind: add, rows: 1, features: 1}\n"
    head = "name: deep\ndescription: nothing, often\nsource: nowhere\n"
    assert any("more than 200000 repetitions" in problem for problem in problems(head + inner))


def test_demands_name_the_operator_to_blame() -> None:
    good = Operator("good", "add", {"rows": 1, "features": 1})
    bad = Operator("bad", "add", {"rows": 0, "features": 1})
    with pytest.raises(demands.OperatorError, match=r"^bad: rows is 0; accepted: 1 to 9007199254740992$") as wrong:
        demands.of([good, bad], 2)
    assert (wrong.value.operator, wrong.value.size) == ("bad", "rows")
    assert demands.of([], 2) == []
    first, second = demands.of([good, good], 2)
    assert first is second
    assert first.forward[0].described() == {"flops": 1, "bytes": 6}
