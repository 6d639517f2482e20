"""A small GPT and what its operators ask, until models are files and the engine says what operators ask."""

from __future__ import annotations

from collections.abc import Sequence

from syncline.models.model import Layer, Model, Operator
from syncline.strategies.costs import Demand

GPTS = {"gpt-tiny": (4, 64, 4, 256, 32), "gpt2": (12, 768, 12, 50304, 1024), "gpt3-175b": (96, 12288, 96, 51200, 2048)}


def linear(name: str, rows: int, inputs: int, outputs: int, split: str, bias: int = 1) -> Operator:
    return Operator(
        name, "linear", {"rows": rows, "inputs": inputs, "outputs": outputs, "bias": bias}, {"tensor": split}
    )


def each(name: str, kind: str, rows: int, features: int, split: dict | None = None) -> Operator:
    return Operator(name, kind, {"rows": rows, "features": features}, {"sequence": "rows"} if split is None else split)


def gpt(name: str, samples: int, tokens: int | None = None) -> Model:
    layers, h, a, v, s = GPTS[name]
    s = tokens or s
    r = samples * s
    core = {
        "sequences": samples,
        "heads": a,
        "kv_heads": a,
        "queries": s,
        "keys": s,
        "head_size": h // a,
        "value_size": h // a,
        "causal": 1,
        "fused": 0,
        "dropout": 1,
    }
    inside = {"tensor": "features"}
    block = (
        each("norm.1", "layer-norm", r, h),
        linear("qkv", r, h, 3 * h, "outputs"),
        Operator("core", "attention", core, {"tensor": "heads"} | {}),
        linear("out", r, h, h, "inputs"),
        each("drop.1", "dropout", r, h),
        each("add.1", "add", r, h),
        each("norm.2", "layer-norm", r, h),
        linear("up", r, h, 4 * h, "outputs"),
        each("gelu", "gelu", r, 4 * h, inside),
        linear("down", r, 4 * h, h, "inputs"),
        each("drop.2", "dropout", r, h),
        each("add.2", "add", r, h),
    )
    embed = Operator("table", "embedding", {"rows": r, "vocabulary": v, "features": h}, {"tensor": "vocabulary"})
    place = Operator("place", "position-embedding", {"rows": r, "positions": s, "features": h}, {"sequence": "rows"})
    first = Layer("embedding", (embed, place, each("drop", "dropout", r, h)), block=False)
    loss = Operator("loss", "softmax-cross-entropy", {"rows": r, "vocabulary": v}, {"tensor": "vocabulary"})
    last = Layer("head", (each("norm", "layer-norm", r, h), linear("logits", r, h, v, "outputs", 0), loss), block=False)
    blocks = tuple(Layer(f"block.{n}", block) for n in range(layers))
    return Model(name, (first, *blocks, last), s, samples, h, (("embedding", "head"),))


def ask(operators: Sequence[Operator], element: int) -> list[Demand]:
    return [one(operator, element) for operator in operators]


def one(operator: Operator, el: int) -> Demand:
    z = dict(operator.sizes)
    if operator.kind in ("linear", "experts"):
        r, i, o = z["rows"], z["inputs"], z["outputs"]
        n = z.get("experts", 1)
        k = (2 * r * i * o, el * (r * i + n * i * o + r * o), None)
        return Demand(
            n * i * o + z.get("bias", 0) * o,
            r * i * el,
            r * i,
            r * o,
            {"forward": (k,), "weight-grad": (k,), "input-grad": (k,)},
        )
    if operator.kind == "attention":
        z.setdefault("kv_heads", z["heads"])
        q = z["sequences"] * z["queries"] * z["heads"] * z["head_size"]
        kv = z["sequences"] * z["keys"] * z["kv_heads"] * (z["head_size"] + z["value_size"])
        sc = z["sequences"] * z["heads"] * z["queries"] * z["keys"]
        k = (4 * sc * z["head_size"], el * (q + kv + 4 * sc), None)
        b = (8 * sc * z["head_size"], el * 2 * (q + kv + 4 * sc), None)
        return Demand(
            0, (q + kv) * el + sc * (2 * el + 1), q + kv, q, {"forward": (k,), "weight-grad": (), "input-grad": (b,)}
        )
    n = z["rows"] * z.get("features", 1)
    k = (n, 2 * el * n, None)
    if operator.kind == "softmax-cross-entropy":
        n = z["rows"] * z["vocabulary"]
        return Demand(0, 4 * n, n, z["rows"], {"forward": (k,), "weight-grad": (), "input-grad": (k,)})
    if operator.kind == "embedding":
        return Demand(
            z["vocabulary"] * z["features"],
            8 * z["rows"],
            z["rows"],
            n,
            {"forward": (k,), "weight-grad": (k,), "input-grad": ()},
        )
    params = {"layer-norm": 2 * z["features"], "position-embedding": z.get("positions", 0) * z["features"]}.get(
        operator.kind, 0
    )
    kept = {"layer-norm": el * n, "gelu": el * n, "dropout": n}.get(operator.kind, 0)
    return Demand(params, kept, n, n, {"forward": (k,), "weight-grad": (k,) if params else (), "input-grad": (k,)})
