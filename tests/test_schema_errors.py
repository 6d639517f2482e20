"""What is said about experiment files that are wrong. The messages are snapshots: read their diffs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from support import schemas
from support.command import Ended
from support.experiments import SMALL, complaints, study
from syncline.base import document
from syncline.base.errors import InputError
from syncline.experiment.load import load_file

MALFORMED = {
    "nothing": "",
    "only a comment": "# nothing\n",
    "a list": "- a\n- b\n",
    "a word": "experiment\n",
    "open bracket": "a: [1\n",
    "tab": "name: x\ntopology:\n\tdims: []\n",
    "two documents": f"{SMALL}---\n{SMALL}",
    "duplicate key": f"{SMALL}name: again\n",
    "duplicate nested key": f"{SMALL}npu: {{sms: 1, sms: 2}}\n",
    "number as key": f"{SMALL}1: 2\n",
    "list as key": f"{SMALL}? [a]\n: 3\n",
    "alias": f"{SMALL}npu: &n {{sms: 80}}\noutput: *n\n",
    "bomb": "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n",
    "merge key": f"{SMALL}<<: {{npu: {{sms: 3}}}}\n",
    "tag": f"{SMALL}description: !!python/object:os.system x\n",
    "deep": "a: " + "[" * 100 + "]" * 100,
    "control character": "name: a\x01b\n",
    "missing everything": "description: x\n",
    "unknown keys": f"{SMALL}colective: {{}}\nzzz: 1\n",
    "unknown nested key": f"{SMALL}training: {{iteration: 2}}\n",
    "section is a number": f"{SMALL}npu: 3\n",
    "section is empty": f"{SMALL}npu:\n",
    "section is a list": f"{SMALL}training: [2]\n",
    "mapping for the word that says what to run": "name: a\ntopology: Ring(4)\n"
    "workload: {collective: {kind: all-to-all, size: 8MiB}}\n",
    "name is a number": SMALL.replace("small", "3"),
    "name is a path": SMALL.replace("small", "../x"),
    "bare numbers": f"{SMALL}npu: {{peak: 120, clock: 1.2, memory_bandwidth: 900}}\n",
    "wrong units": f"{SMALL}npu: {{peak: 120GB/s, clock: 1ns, bus: 500GB}}\n",
    "yaml 1.1 booleans": f"{SMALL}training: {{overlap: on}}\n",
    "octal": f"{SMALL}training: {{iterations: 010}}\n",
    "sexagesimal": f"{SMALL}training: {{iterations: 1:30}}\n",
    "exponent for a count": f"{SMALL}training: {{iterations: 1e3}}\n",
    "underscores": f"{SMALL}training: {{iterations: 1_000}}\n",
    "fraction for a count": f"{SMALL}training: {{iterations: 1.5}}\n",
    "true for a count": f"{SMALL}training: {{iterations: true}}\n",
    "zero iterations": f"{SMALL}training: {{iterations: 0}}\n",
    "not a number": f"{SMALL}training: {{compute_scale: .nan}}\n",
    "infinite": f"{SMALL}training: {{compute_scale: .inf}}\n",
    "overflow": f"{SMALL}training: {{compute_scale: 1e999}}\n",
    "negative scale": f"{SMALL}training: {{compute_scale: -0.2}}\n",
    "huge integer": f"{SMALL}training: {{iterations: {'9' * 5000}}}\n",
    "huge quantity": f"{SMALL}npu: {{clock: {'9' * 39}THz}}\n",
    "topology": SMALL.replace("Ring(4)_Ring(2)", "Rinng(4)"),
    "topology as number": SMALL.replace("Ring(4)_Ring(2)", "4"),
    "topology of size zero": SMALL.replace("Ring(4)_Ring(2)", "Ring(0)"),
    "topology with a wide switch": SMALL.replace("Ring(4)_Ring(2)", "Ring(4)_Switch(65536, links=2)"),
    "topology without dims": SMALL.replace("Ring(4)_Ring(2)", "{dims: []}"),
    "topology dims": SMALL.replace("Ring(4)_Ring(2)", "{dims: [{size: 0, rate: 3}, {size: 4, efficiency: 94}, 5]}"),
    "topology dims of an unknown block": SMALL.replace("Ring(4)_Ring(2)", "{dims: [{block: Swich, size: 4}]}"),
    "backend": f"{SMALL}network: {{backend: ethernets}}\n",
    "backend in short": f"{SMALL}network: paket\n",
    "backend of another": f"{SMALL}network: {{backend: analytical, packet: 256B}}\n",
    "buffer": f"{SMALL}network: {{backend: packet, buffer: 300B}}\n",
    "buffer text": f"{SMALL}network: {{backend: packet, buffer: automatic}}\n",
    "bubble needs two": f"{SMALL}network: {{packet: 256B, buffer: 256B}}\n",
    "deadlock rule": f"{SMALL}network: {{deadlock_rule: bubbles}}\n",
    "workload missing": "name: a\ntopology: Ring(4)\n",
    "workload empty": SMALL.replace("{model: resnet50, batch: 32}", "{}"),
    "workload model": SMALL.replace("resnet50", "resnet51"),
    "workload later": SMALL.replace("resnet50", "gpt3"),
    "strategy of copies": SMALL.replace("resnet50", "dlrm") + "training: {strategy: data-parallel}\n",
    "strategy of tables": f"{SMALL}training: {{strategy: hybrid}}\n",
    "sequence of images": SMALL.replace("batch: 32", "batch: 32, sequence: 25"),
    "tables that do not divide": SMALL.replace("resnet50", "dlrm").replace("Ring(2)", "Ring(3)"),
    "tables of groups that do not divide": SMALL.replace("resnet50", "dlrm") + "groups: 0-2;3-5\n",
    "background without tables": f"{SMALL}training: {{background_embedding: true}}\n",
    "background without overlap": (
        SMALL.replace("resnet50", "dlrm") + "training: {background_embedding: true, overlap: false}\n"
    ),
    "background that takes everything": (
        SMALL.replace("resnet50", "dlrm")
        + "training: {background_embedding: true, background_sms: 78, background_memory_bandwidth: 772GB/s}\n"
        "endpoint: {kind: baseline, comm_sms: 2, comm_memory_bandwidth: 128GB/s}\n"
    ),
    "array of a roofline": f"{SMALL}npu: {{compute: {{rows: 128}}}}\n",
    "array without rows": f"{SMALL}npu: {{compute: {{kind: systolic, rows: 0, dataflow: row-stationary}}}}\n",
    "compute by another name": f"{SMALL}npu: {{compute: {{kind: tensor}}}}\n",
    "algorithms of what does not occur": f"{SMALL}collective: {{algorithms: {{all-to-all: direct}}}}\n",
    "algorithms that do not exist": (
        SMALL.replace("resnet50", "dlrm") + "collective: {algorithms: {all-to-all: directly, all-to-any: ring}}\n"
    ),
    "algorithms that nobody chose": (
        SMALL.replace("resnet50", "dlrm")
        + "collective: {algorithms: {all-to-all: auto, all-reduce: ring-unidirectional}}\n"
    ),
    "priority": SMALL.replace("resnet50", "dlrm") + "collective: {priority: [all-to-all, all-to-all, broadcast]}\n",
    "workload twice": SMALL.replace("batch: 32", "batch: 32, astra_text: x.txt"),
    "workload misspelt": SMALL.replace("model: resnet50", "modle: resnet50"),
    "element": SMALL.replace("batch: 32", "batch: 32, element: 3B"),
    "batch missing": SMALL.replace(", batch: 32", ""),
    "batch as text": SMALL.replace("32", "'32'"),
    "astra file missing": SMALL.replace("{model: resnet50, batch: 32}", "{astra_text: no/such.txt}"),
    "astra file is a folder": SMALL.replace("{model: resnet50, batch: 32}", "{astra_text: .}"),
    "collective kind": SMALL.replace("{model: resnet50, batch: 32}", "{collective: all-to-any, size: 1MB}"),
    "topology without a machine": SMALL.replace("Ring(4)_Ring(2)", "dgx-a10"),
    "topology with a wrong parameter": SMALL.replace("Ring(4)_Ring(2)", "dgx-a100(node=2)"),
    "topology file": SMALL.replace("Ring(4)_Ring(2)", "{file: nowhere.xml}"),
    "topology file as number": SMALL.replace("Ring(4)_Ring(2)", "{file: 3}"),
    "topology file and dims": SMALL.replace("Ring(4)_Ring(2)", "{file: a.xml, dims: [{size: 4}]}"),
    "gpus of a product": f"{SMALL}gpus: 0-3\n",
    "gpus that are none": SMALL.replace("Ring(4)_Ring(2)", "dgx1v") + "gpus: 6-9\n",
    "gpus as a mapping": SMALL.replace("Ring(4)_Ring(2)", "dgx1v") + "gpus: {a: 3}\n",
    "gpus and groups": SMALL.replace("Ring(4)_Ring(2)", "dgx1v") + "gpus: 0-3\ngroups: 0-1;2-3\n",
    "groups": f"{SMALL}groups: 0-1;x\n",
    "groups as numbers": f"{SMALL}groups: [0, -1]\n",
    "groups as a number": f"{SMALL}groups: 3\n",
    "groups that overlap": f"{SMALL}groups: [[0, 1], [1, 2]]\n",
    "groups of different sizes": f"{SMALL}groups: [[0, 1], [2]]\n",
    "groups beyond the fabric": f"{SMALL}groups: 0-15:4\n",
    "groups by a rule": f"{SMALL}groups: stride 3\n",
    "no groups": f"{SMALL}groups: []\n",
    "per dimension": f"{SMALL}collective: {{per_dimension: [ring]}}\n",
    "per dimension of a line": f"{SMALL}collective: {{algorithm: direct, per_dimension: [ring, ring]}}\n",
    "per dimension of groups": f"{SMALL}groups: size 4\ncollective: {{algorithm: ring, per_dimension: [ring]}}\n",
    "per dimension and auto": f"{SMALL}collective: {{algorithm: auto, per_dimension: [ring, ring]}}\n",
    "per dimension of something": f"{SMALL}collective: {{per_dimension: [ring, hierarchical]}}\n",
    "fold": f"{SMALL}fold: sometimes\n",
    "padding": f"{SMALL}collective: {{padding: true}}\n",
    "root out of range": SMALL.replace(
        "{model: resnet50, batch: 32}", "{collective: broadcast, size: 1MB, root: 2}\ngroups: 0-1"
    ),
    "root of nothing": SMALL.replace("{model: resnet50, batch: 32}", "{collective: all-to-all, size: 1MB, root: 0}"),
    "collective size": SMALL.replace("{model: resnet50, batch: 32}", "{collective: all-reduce, size: -1MB}"),
    "chunk and chunks": f"{SMALL}collective: {{chunk: 64KiB, chunks: 3}}\n",
    "size beyond counters": SMALL.replace(
        "{model: resnet50, batch: 32}", "{collective: all-reduce, size: 9000PB}\ncollective: {chunks: 1}"
    ),
    "size beyond time": SMALL.replace("Ring(4)_Ring(2)", "Ring(4, rate=1B/s)").replace(
        "{model: resnet50, batch: 32}", "{collective: all-reduce, size: 1GB}"
    ),
    "too many windows": f"{SMALL.replace('Ring(4)_Ring(2)', 'Ring(4, latency=9000s)')}output: {{window: 800ns}}\n",
    "latency beyond time": SMALL.replace("Ring(4)_Ring(2)", "Ring(4, latency=9000000s)"),
    "dateline needs two": f"{SMALL}network: {{packet: 256B, buffer: 256B, deadlock_rule: dateline}}\n",
    "tiny window": f"{SMALL}output: {{window: 1ps}}\n",
    "no chunks": f"{SMALL}collective: {{chunks: 0, lanes: two}}\n",
    "chunk below an element": f"{SMALL}collective: {{chunk: 1B}}\n",
    "algorithm": f"{SMALL}collective: {{algorithm: ace-4-phases}}\n",
    "algorithm for machines": f"{SMALL}collective: {{algorithm: packed-trees}}\n",
    "endpoint": f"{SMALL}endpoint: idael\n",
    "endpoint without kind": f"{SMALL}endpoint: {{comm_sms: 6}}\n",
    "endpoint incomplete": f"{SMALL}endpoint: {{kind: baseline}}\n",
    "endpoint of another kind": f"{SMALL}endpoint: {{kind: ideal, sram: 4MiB}}\n",
    "all SMs": f"{SMALL}endpoint: {{kind: baseline, comm_sms: 80, comm_memory_bandwidth: 900GB/s}}\n",
    "too many SMs": (
        f"{SMALL}training: {{overlap: false}}\n"
        "endpoint: {kind: baseline, comm_sms: 81, comm_memory_bandwidth: 901GB/s}\n"
    ),
    "port buffer": f"{SMALL}endpoint: {{kind: ace, comm_memory_bandwidth: 128GB/s, port_buffer: 128B}}\n",
    "32 bits": f"{SMALL}endpoint: {{kind: ace, comm_memory_bandwidth: 128GB/s, message: 4GiB}}\n",
    "trace": f"{SMALL}output: {{trace_npus: [0, 8, a]}}\n",
    "trace of nobody": f"{SMALL}output: {{trace_npus: [8]}}\n",
    "calibration": f"{SMALL}calibration: {{training.scale: {{fitted_on: x}}, training.compute_scale: {{on: x}}}}\n",
    "calibration variants": f"{SMALL}calibration: {{training.compute_scale: {{fitted_on: x, variants: [smal]}}}}\n",
    "variants": f"{SMALL}variants: 3\n",
    "no variants": f"{SMALL}variants: []\n",
    "variant without name": f"{SMALL}variants: [{{endpoint: ideal}}]\n",
    "variant names": f"{SMALL}variants: [{{name: A}}, {{name: a}}, {{name: a/b}}, {{name: 3}}, {{name: inputs}}, x]\n",
    "variant with variants": f"{SMALL}variants: [{{name: A, variants: [], calibration: {{}}}}]\n",
    "error in the file and in variants": (
        f"{SMALL}npu: {{sms: 0}}\n"
        "variants:\n  - {name: A, endpoint: idea}\n  - {name: B, collective: {chnks: 3}}\n"
    ),
    "unicode": f"{SMALL}endpoint: \u00eedeal\n",
}


@pytest.mark.parametrize("case", MALFORMED)
def test_message(case: str, snapshot: SnapshotAssertion) -> None:
    text = complaints(MALFORMED[case])
    assert text != "nothing is wrong"
    assert text == snapshot


SETTINGS = {
    "not an assignment": ("training.iterations",),
    "no path": ("=3",),
    "unknown field": ("trainin.iterations=3",),
    "wrong value": ("training.iterations=many",),
    "below a value": ("name.x=3",),
    "no such variant": ("variants.SM.npu.sms=40",),
    "no such item": ("variants.9.npu.sms=40",),
    "bad YAML": ("output.trace_npus=[1",),
    "two at once": ("training.iterations=0", "npu.sms=0"),
}


@pytest.mark.parametrize("case", SETTINGS)
def test_message_about_a_setting(case: str, snapshot: SnapshotAssertion) -> None:
    variants = f"{SMALL}variants: [{{name: SMs}}, {{name: Ideal}}]\n"
    try:
        study(variants, *SETTINGS[case])
    except InputError as error:
        assert error.as_text() == snapshot
    else:
        pytest.fail("nothing is wrong")


def test_files_that_are_no_experiments(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    (tmp_path / "binary").write_bytes(b"name: \xff\xfe\n")
    (tmp_path / "zeros").write_bytes(bytes(100))
    (tmp_path / "large").write_text("#" * (document.MAX_BYTES + 1))
    (tmp_path / "folder").mkdir()
    said = []
    for name in ("binary", "zeros", "large", "folder", "missing", "missing\0"):
        with pytest.raises(InputError) as error:
            load_file(tmp_path / name, name.replace("\0", "?"))
        said.append(error.value.as_text())
    assert "\n".join(said) == snapshot


def test_a_byte_order_mark_and_windows_line_ends_are_fine(tmp_path: Path) -> None:
    path = tmp_path / "windows.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + SMALL.replace("\n", "\r\n").encode())
    assert load_file(path, "windows.yaml").name == "small"


GRAPH = "name: g\ntopology: Ring(2)\nworkload: {graph: g.json}\n"
NODES = [{"name": f"n{n}", "time": "1us", "after": ["nothing"]} for n in range(400)]
MANY = {
    "aliases": {"e.yaml": "name: &a\n" + "\n".join(f"k{n}: *a" for n in range(400))},
    "keys of a graph": {"e.yaml": GRAPH, "g.json": json.dumps({f"key {n}": 1 for n in range(399)})},
    "nodes of a graph": {
        "e.yaml": GRAPH,
        "g.json": json.dumps({"classes": {"c": {"npus": "0", "nodes": NODES}}}),
    },
}
"""Files in which 400 things or more are wrong."""


@pytest.mark.parametrize("name", MANY)
def test_a_list_of_errors_has_an_end(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, syncline_command: Callable[..., Ended]
) -> None:
    monkeypatch.chdir(tmp_path)
    for file, text in MANY[name].items():
        Path(file).write_text(text)
    ended = syncline_command("check", "e.yaml")
    *listed, more, heading = ended.err.splitlines()
    count = int(heading.removesuffix(" errors"))
    assert (ended.status, count >= 400) == (2, True)
    assert more == f"... and {count - 50} more"
    assert sum(not line.startswith("    ") for line in listed) == 50
    assert len(ended.err) < 10_000
    document = json.loads(syncline_command("check", "e.yaml", "--json").err)
    assert not schemas.problems("errors", document)
    assert (len(document["errors"]), document["omitted"]) == (50, count - 50)
    with pytest.raises(InputError, match=rf"\.\.\. and {count - 50} more"):
        load_file(tmp_path / "e.yaml", "e.yaml")
