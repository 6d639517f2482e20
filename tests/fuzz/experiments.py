"""Experiments from their JSON Schema: legal and nearly legal values for all fields, on fabrics of every kind."""

from __future__ import annotations

import json
from functools import cache
from random import Random
from typing import Any, Final

from . import mutation
from .case import Case, Corpus, generator

KINDS: Final = ("all-reduce", "reduce-scatter", "all-gather", "all-to-all", "broadcast", "reduce", "gather", "scatter")
ALGORITHMS: Final = (
    *("ring", "ring-unidirectional", "direct", "halving-doubling", "double-binary-tree", "one-hop-trees", "in-switch"),
    *("hierarchical", "hierarchical-optimal", "ace-4-phase", "six-phase", "themis", "auto"),
)
MACHINES: Final = ("dgx1p", "dgx1v", "dgx2", "dgx-a100", "dgx-h100", "dgx-h200", "dgx-b200", "gb200-nvl72")
NETWORKS: Final = {"LeafSpine": ("leaves", "hosts", "spines"), "FatTree": ("k",), "SuperNodes": ("groups", "size")}
SIZES: Final = ("1B", "7B", "31B", "1000B", "1kB", "4KiB", "64KiB", "1MB", "1MiB", "999999B", "16MiB", "1GB", "1TB")
RATES: Final = ("1B/s", "1kB/s", "1MB/s", "1GB/s", "25GB/s", "200GB/s", "100Gb/s", "1TB/s", "900GB/s")
TIMES: Final = ("1ps", "1ns", "72ns", "500ns", "1us", "1ms", "1s", "1000s", "90cycles@1245MHz")
SMALL: Final = (1, 2, 3, 4, 5, 8)
HOSTILE: Final = (0, 1, 17, 64, 256, 1000, 4096, 65536, 4194304, 67108864, 2**31, 2**63)


@cache
def schema() -> dict[str, Any]:
    """The JSON Schema of experiments."""
    from syncline.experiment import export

    return export.json_schema()


def topology(chance: Random, *, hostile: bool = False) -> str:
    """A topology string; with `hostile` of any size."""
    kind = chance.random()
    if kind < 0.2:
        return machine(chance) if kind < 0.15 else network(chance, hostile=hostile)
    blocks = []
    for _ in range(chance.choice((1, 1, 2, 2, 3, 5))):
        sizes = HOSTILE if hostile and chance.random() < 0.5 else SMALL
        block = chance.choice(("Ring", "FullyConnected", "Switch", "Torus"))
        shape = [str(chance.choice(sizes)) for _ in range(chance.choice((1, 2, 3)) if block == "Torus" else 1)]
        blocks.append(f"{block}({', '.join([*shape, *_parameters(chance, hostile=hostile)])})")
    text = "_".join(blocks)
    return mutation.text(chance, text) if chance.random() < 0.05 else text


def _parameters(chance: Random, *, hostile: bool) -> list[str]:
    found = []
    if chance.random() < 0.4:
        found.append(f"rate={chance.choice(RATES)}")
    if chance.random() < 0.4:
        found.append(f"latency={chance.choice((*TIMES, '9000000s') if hostile else TIMES)}")
    if chance.random() < 0.15:
        found.append(f"links={chance.choice((0, 4095) if hostile else (1, 2, 3, 4, 32))}")
    if chance.random() < 0.15:
        found.append(f"efficiency={chance.choice(('94%', '100%', '1%', '0.001%', *['101%'] * hostile))}")
    return found


def machine(chance: Random) -> str:
    """A machine, or a cluster."""
    name = chance.choice(MACHINES)
    options = []
    if chance.random() < 0.4:
        options.append(f"nodes={chance.choice((1, 2, 2, 3, 4, 4, 0, 100000))}")
    if chance.random() < 0.3:
        options.append(f"nics={chance.choice(('rail', 'single', 'none'))}")
    if chance.random() < 0.2:
        options.append(f"oversubscription={chance.choice(('1', '2', '0', '1e9', '-1'))}")
    if chance.random() < 0.2:
        options.append(f"nic_rate={chance.choice(RATES)}")
    return f"{name}({', '.join(options)})" if options else name


def network(chance: Random, *, hostile: bool = False) -> str:
    """A network of switches, or nearly; with `hostile` of any size."""
    name, counts = chance.choice(tuple(NETWORKS.items()))
    sizes = HOSTILE if hostile and chance.random() < 0.5 else SMALL
    options = [f"{count}={chance.choice(sizes)}" for count in counts if chance.random() < 0.95]
    options += [o for o in _parameters(chance, hostile=hostile) if not o.startswith("links")]
    for option in (
        "oversubscription=2",
        "uplink_rate=25GB/s",
        "local_rate=175GB/s",
        "switches=2",
        "switch_buffer=64MB",
    ):
        if chance.random() < 0.15:
            options.append(option)
    return f"{name}({', '.join(options)})"


def groups(chance: Random, *, hostile: bool = False) -> str:
    """Groups of NPUs as text."""
    last = chance.choice((3, 7, 15, 4194303, 67108863) if hostile else (1, 3, 7, 15))
    return chance.choice(
        (
            *(f"0-{last}", f"0-{last}:2", f"0,{last}", f"0-1;2-{last}", f"size {chance.choice(SMALL)}", "0;1;2;3"),
            *(f"stride {chance.choice(SMALL)}", f"size 2 stride {chance.choice(SMALL)}", "", ";", "3-1", "0,0"),
        )
    )


def legal(chance: Random, node: dict[str, Any], field: str = "", depth: int = 0) -> Any:
    """A value that a schema allows, or nearly."""
    if chance.random() < 0.003:
        return mutation.value(chance, 2)
    if "$ref" in node:
        return legal(chance, schema()["$defs"][node["$ref"].rpartition("/")[2]], field, depth)
    for several in ("anyOf", "oneOf"):
        if several in node:
            return legal(chance, chance.choice(node[several]), field, depth)
    if "const" in node:
        return node["const"]
    if "enum" in node:
        return chance.choice(node["enum"])
    kind = node.get("type")
    if isinstance(kind, list):
        kind = chance.choice(kind)
    if kind == "object":
        return _object(chance, node, depth)
    if kind == "array":
        items = node.get("items", {"type": "integer", "minimum": 0, "maximum": 9})
        return [legal(chance, items, field, depth + 1) for _ in range(chance.choice((0, 1, 1, 2, 3)))]
    return _plain(chance, kind, node, field)


def _object(chance: Random, node: dict[str, Any], depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    often = 0.35 if depth else 0.2
    for name, part in node.get("properties", {}).items():
        tells = "const" in part or name in node.get("required", ())
        if tells or chance.random() < (SELDOM if name == "plan" else often):
            found[name] = legal(chance, part, name, depth + 1)
    if isinstance(node.get("additionalProperties"), dict) and chance.random() < 0.5:
        names = node.get("propertyNames", {}).get("enum", KINDS)
        found[chance.choice(names)] = legal(chance, node["additionalProperties"], "", depth + 1)
    return found


def _plain(chance: Random, kind: str | None, node: dict[str, Any], field: str) -> Any:
    if kind == "string":
        return _text(chance, node, field)
    if kind == "boolean":
        return chance.choice((True, False))
    if kind in ("integer", "number"):
        low, high = node.get("minimum", node.get("exclusiveMinimum", 0)), node.get("maximum", 100)
        if chance.random() < 0.1:
            return chance.choice((low, high, low - 1, high + 1))
        number = low + min(high - low, chance.choice((0, 1, 1, 2, 3, 5, 16)))
        return number if kind == "integer" else float(number) + chance.choice((0, 0.5))
    return None


def _text(chance: Random, node: dict[str, Any], field: str) -> str:
    if field == "name":
        return chance.choice(("a", "b", "A system", "x-1"))
    if field == "way":
        return chance.choice(("up", "down", "switch", "+1"))
    if "topology" in field or node.get("description") == accepted().get("topology"):
        return topology(chance)
    if field == "groups":
        return groups(chance)
    if field == "plan":
        return chance.choice(("plan.json", "plan.xml", "mscclpp.json", "nowhere.xml"))
    if field == "gpus":
        return chance.choice(("0-3", "0,1", "0", "1,0", "0-7"))
    values = quantities_of().get(accepted().get(field, ""))
    return chance.choice(values or ("auto", "0-3", "text", "64KiB", "training.compute_scale"))


@cache
def accepted() -> dict[str, str]:
    """What the fields of an experiment accept in words, by their names."""
    from syncline.base.section import Section
    from syncline.sections.wording import accepted_text

    found: dict[str, str] = {}
    models = list(Section.__subclasses__())
    for model in models:
        models += model.__subclasses__()
        found |= {name: text for name, info in model.model_fields.items() if (text := accepted_text(info))}
    return found


@cache
def quantities_of() -> dict[str, tuple[str, ...]]:
    """Values of quantities, by what their fields accept."""
    from syncline.base import quantities
    from syncline.sections.networks.packet import BUFFER_ACCEPTED

    return {
        quantities.SIZE.accepted: SIZES,
        quantities.RATE.accepted: RATES,
        quantities.TIME.accepted: TIMES,
        quantities.FREQUENCY.accepted: ("1245MHz", "1GHz", "1Hz", "999GHz"),
        quantities.COMPUTE.accepted: ("120TFLOP/s", "1GFLOP/s", "1FLOP/s", "1e6TFLOP/s"),
        quantities.SHARE_ACCEPTED: ("94%", "100%", "0.1%"),
        BUFFER_ACCEPTED: ("auto", *SIZES),
    }


SELDOM: Final = 0.03
"""How often a plan is named, which few collectives have."""
RARE: Final = frozenset({"slow_links", "calibration", "gpus", "topology", "name", "workload", "variants"})


@cache
def sections() -> dict[str, str]:
    """The sections that describe a kind of endpoint or network, by its name."""
    from syncline.sections.endpoints import ENDPOINTS
    from syncline.sections.networks import NETWORKS

    return {name: section.__name__ for name, section in (*ENDPOINTS.items(), *NETWORKS.items())}


def _further(chance: Random, name: str, part: dict[str, Any], found: Any) -> Any:
    """More fields of a section, those of its kind."""
    if isinstance(found, dict):
        kind = sections().get(found.get("kind") or found.get("backend") or "")
        made = _object(chance, schema()["$defs"][kind], 1) if kind else legal(chance, part, name)
        return made | found if isinstance(made, dict) else found
    return found if found is not None else legal(chance, part, name)


def experiment(chance: Random, *, hostile: bool = False) -> dict[str, Any]:
    """An experiment as a mapping."""
    from syncline.sections import profiles
    from syncline.sections.networks import NETWORKS

    properties = schema()["properties"]
    found: dict[str, Any] = {"name": "fuzz", "topology": topology(chance, hostile=hostile)}
    if chance.random() < 0.6:
        kind = chance.choice((*KINDS[:4] * 2, *KINDS))
        found["workload"] = {"collective": kind, "size": chance.choice(SIZES)}
        if kind in ("broadcast", "reduce", "gather", "scatter") and chance.random() < 0.3:
            found["workload"]["root"] = chance.choice((0, 1, 7))
        if chance.random() < 0.25:
            found["groups"] = groups(chance, hostile=hostile)
    else:
        model = chance.choice(("alexnet", "vgg16", "resnet18", "resnet50", "dlrm", "gnmt"))
        found["workload"] = {"model": model, "batch": chance.choice((1, 8, 32))}
        found["training"] = {"iterations": chance.choice((1, 2))}
    found["network"] = {"backend": chance.choice(sorted(NETWORKS))}
    found["endpoint"] = chance.choice(
        (
            *profiles.ENDPOINTS.values(),
            {"kind": "baseline", "comm_memory_bandwidth": chance.choice(("450GB/s", "1B/s", "1MB/s")), "comm_sms": 6},
            {"kind": "ace", "comm_memory_bandwidth": "1MB/s"},
            {"kind": "switch-offload", "comm_memory_bandwidth": "128GB/s", "comm_sms": 2},
            {"kind": "baseline", "contention": "dynamic", "comm_sms": 6},
        )
    )
    if chance.random() < 0.7:
        found["collective"] = {"algorithm": chance.choice(ALGORITHMS)}
    for name, part in properties.items():
        if chance.random() < (0.01 if name in RARE else 0.12):
            found[name] = _further(chance, name, part, found.get(name))
    if str(found["topology"]).startswith("dgx") and chance.random() < 0.3:
        found["gpus"] = chance.choice(("0-3", "0,1", "1,0"))
        found.pop("groups", None)
    if chance.random() < 0.05:
        found["variants"] = [{"name": f"v{i}", **_object(chance, schema()["$defs"]["Variant"], 1)} for i in range(2)]
    return found


def written(value: Any) -> bytes:
    """A mapping as a file: JSON is YAML, but for what JSON cannot say."""
    return json.dumps(value, ensure_ascii=True).encode()


def commands(chance: Random, file: str = "e.yaml") -> list[list[str]]:
    """What is done with an experiment."""
    flags = ["--json"] if chance.random() < 0.8 else ["-v"]
    run = ["run", file, *flags, "--threads", "1", *(["--out", "run"] if chance.random() < 0.15 else [])]
    return [["check", file, "--json"], run]


@generator("experiment", 24)
def from_schema(chance: Random, _: Corpus) -> Case:
    """An experiment of modest size, checked and run."""
    return Case(commands(chance), {"e.yaml": written(experiment(chance))})


@generator("hostile-size", 8)
def of_any_size(chance: Random, _: Corpus) -> Case:
    """Fabrics and groups of any size."""
    if chance.random() < 0.5:
        return Case(commands(chance), {"e.yaml": written(experiment(chance, hostile=True))})
    line = ["collective", chance.choice(KINDS), "--size", chance.choice(SIZES)]
    line += ["--topology", topology(chance, hostile=True), "--json"]
    if chance.random() < 0.4:
        line += ["--group", groups(chance, hostile=True)]
    return Case([line])


@generator("broken-experiment", 10)
def damaged(chance: Random, _: Corpus) -> Case:
    """An experiment with values in wrong places."""
    return Case(commands(chance), {"e.yaml": written(mutation.document(chance, experiment(chance)))})
