"""What a simulation will cost, said before it is begun."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from types import ModuleType

import pytest

from support import fake_core
from support.command import Ended
from support.experiments import study
from support.registry import BACKENDS, ENDPOINTS, ON_ANY_FABRIC
from syncline.base.errors import InputError
from syncline.engine import estimate
from syncline.engine import runs as engine
from syncline.experiment.load import load_file

COLLECTIVE = (
    *("all-reduce", "--size", "1GB", "--topology", "Ring(4)", "--endpoint", "baseline", "--backend", "packet"),
    *("--set", "collective.chunks=384", "--inflight", "34"),
)


@pytest.fixture
def tiny_messages(fake_engine: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    def check(spec: str) -> str:
        preview = json.loads(fake_core.check(spec))
        counts = dict.fromkeys(("messages", "message_hops", "packets", "packet_hops"), 600_000_000)
        tiny = {"chunks": 100_000_000, "byte_hops": 9_600_000_000}
        return json.dumps(preview | tiny | counts)

    monkeypatch.setattr(fake_engine, "check", check)


@pytest.mark.usefixtures("tiny_messages")
def test_a_long_simulation_is_warned_of_before_it_is_begun(
    syncline_command: Callable[..., Ended], fake_engine: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(spec: str, monitor: object = None) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(fake_engine, "run", interrupted)
    ended = syncline_command("collective", *COLLECTIVE)
    assert ended.err.startswith("warning: all-reduce: about ")
    assert " a message has 16 B: 100,000,000 chunks" in ended.err.splitlines()[0]
    assert "warning" not in syncline_command("collective", *COLLECTIVE, "--quiet").err


@pytest.mark.usefixtures("tiny_messages")
def test_check_and_run_warn_of_it(syncline_command: Callable[..., Ended]) -> None:
    checked = syncline_command("check", "ace/allreduce", "--json")
    warnings = [text for text in json.loads(checked.out)["warnings"] if " events" in text]
    assert [text.split(":")[0] for text in warnings] == ["Ideal", "Baseline", "ACE"]
    for text in warnings:
        assert f"warning: {text}\n" in syncline_command("run", "ace/allreduce").err


@pytest.mark.usefixtures("fake_engine")
def test_a_short_one_is_not(syncline_command: Callable[..., Ended]) -> None:
    assert "events" not in syncline_command("collective", *COLLECTIVE).err


def test_the_engine_is_asked_how_many_messages_there_are(syncline_command: Callable[..., Ended]) -> None:
    """A chunk of 64 B on a ring of four is six messages of 16 B, each a packet, on one NPU for all."""
    ended = syncline_command("check", "ace/allreduce", "--set", "topology=Ring(4)", "--set", "collective.chunk=64B",
                             "--set", "workload.size=320MB", "--json")  # fmt: skip
    (found,) = [e for e in json.loads(ended.out)["estimates"] if e["name"] == "Baseline"]
    assert (found["messages"], found["packets"]) == (30_000_000, 30_000_000)


@pytest.mark.parametrize("kind", ["gather", "scatter"])
def test_the_root_does_not_stand_for_all(syncline_command: Callable[..., Ended], tmp_path: Path, kind: str) -> None:
    """The first NPU, which is the root, sends nothing of a gather, and everything of a scatter."""
    file = tmp_path / "rooted.yaml"
    file.write_text(
        f"name: rooted\ntopology: Switch(512)\nworkload: {{collective: {kind}, size: 64MB}}\nendpoint: ideal\n"
        "collective: {algorithm: direct, chunks: 1}\n"
    )
    (found,) = json.loads(syncline_command("check", str(file), "--json").out)["estimates"]
    assert found["messages"] == 511


def random_experiment(random: Random) -> str:
    """A small experiment of any kind."""
    blocks = random.sample(["Ring", "Ring", "FullyConnected", "Switch"], random.choice([1, 2, 3]))
    link = "rate={}GB/s, latency={}ns"
    links = [link.format(random.choice([1, 25]), random.choice([1, 500, 20_000])) for _ in blocks]
    dims = [f"{block}({random.choice([2, 3, 4, 5])}, {of})" for block, of in zip(blocks, links, strict=True)]
    topology = random.choice(["_".join(dims), "_".join(dims), "dgx1v", "dgx-a100(nodes=2)"])
    size = int(10 ** random.uniform(2, 6.5))
    kind = random.choice(["all-reduce", "all-reduce", "reduce-scatter", "all-to-all", "broadcast", "reduce", "scatter"])
    chunk = max(64, int(size / 10 ** random.uniform(0, 2.5)))
    algorithm = random.choice(["ring", "direct", "halving-doubling", "one-hop-trees", "hierarchical", "six-phase"])
    endpoint = random.choice(
        [
            "ideal",
            "{kind: baseline, comm_memory_bandwidth: 450GB/s, comm_sms: 6}",
            "{kind: ace, comm_memory_bandwidth: 128GB/s}",
        ]
    )
    return (
        f'name: random\ntopology: "{topology}"\nworkload: {{collective: {kind}, size: {size}B}}\nendpoint: {endpoint}\n'
        f"collective: {{algorithm: {algorithm}, chunk: {chunk}B, inflight: {random.choice([1, 16, 1024])}}}\n"
        f"network: {{backend: {random.choice(['analytical', 'flow', 'packet'])}}}\n"
        f"fold: {random.choice(['auto', 'off'])}\noutput: {{trace_npus: []}}\n"
    )


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_estimates_are_close_with_every_endpoint_and_backend(endpoint: str, backend: str) -> None:
    """Not all single runs lie within the factor of three that most random ones lie within; an ACE on ethernet least."""
    fabric = "Torus(4,2)" if endpoint in ON_ANY_FABRIC else "Switch(8)"
    (variant,) = study(
        f'name: one\ntopology: "{fabric}"\nworkload: {{collective: all-reduce, size: 4MB}}\nnetwork: {backend}\n'
        f"endpoint: {ENDPOINTS[endpoint]}\ncollective: {{algorithm: hierarchical, chunk: 64KiB}}\n"
    ).variants
    ratio = estimate.of(variant.experiment, engine.preview(variant)).events / engine.run(variant).summary["events"]
    assert 1 / 5 < ratio < 6


def test_estimates_are_close_to_what_random_runs_take(tmp_path: Path) -> None:
    """Nearly all within a factor of three, and none off by an order of magnitude."""
    random = Random(7)
    ratios: list[float] = []
    file = tmp_path / "random.yaml"
    while len(ratios) < 60:
        file.write_text(random_experiment(random))
        try:
            (variant,) = load_file(file, "random.yaml", [], []).variants
            preview = engine.preview(variant)
        except InputError:
            continue
        expected = estimate.of(variant.experiment, preview)
        events = engine.run(variant).summary["events"]
        if events > 100:
            ratios.append(expected.events / events)
        assert 80e6 < expected.memory_bytes < 500e6
    off = [max(ratio, 1 / ratio) for ratio in ratios]
    assert max(off) < 10, sorted(off)[-5:]
    assert sum(factor > 3 for factor in off) <= 6, sorted(off)[-10:]


def on_two_servers(inside: str) -> str:
    """All-reduces within and between servers."""
    return (
        "name: one\ntopology: dgx-a100(nodes=2, nics=rail)\nworkload: {collective: all-reduce, size: 8MB}\n"
        "endpoint: ideal\nfold: off\ncollective: {algorithm: hierarchical, chunks: 4}\n"
        f"network: {{backend: ethernet, transport: roce, segment: 4096B, inside: {inside}}}\n"
    )


def test_messages_on_nvlink_have_frames_where_these_are_simulated_only() -> None:
    """Frames on PCIe count twice, as if they were acknowledged there: that makes up for the transport's work."""
    frames = {}
    for inside in ("packets", "flow"):
        (variant,) = study(on_two_servers(inside)).variants
        preview = engine.preview(variant)
        frames[inside] = variant.experiment.network.frames(preview)
        assert 1 < frames[inside] / engine.run(variant).summary["network"]["packet_hops"] < 2
        if inside == "flow":
            of_flows = 2 * (preview.flow_byte_hops / 4096 + preview.flow_message_hops)
        else:
            assert preview.flow_byte_hops == preview.flow_message_hops == 0
    assert of_flows > 0
    assert frames["packets"] - frames["flow"] == pytest.approx(of_flows)


def test_what_a_run_takes_is_said_should_its_npus_differ() -> None:
    """A run over RoCE of 16 GPUs is that of two, unless something tells them apart."""
    rings = on_two_servers("flow").replace("chunks: 4", "chunks: 4, per_dimension: [ring, ring]")
    (variant,) = study(rings.replace("fold: off\n", "")).variants
    preview = engine.preview(variant)
    assert (preview.npus, preview.simulated_npus) == (16, 2)
    assert estimate.warning("one", estimate.of(variant.experiment, preview)) is None
    longer = estimate.of(variant.experiment, replace(preview, byte_hops=100 * 10**9))
    assert longer.time_told_apart_s == pytest.approx(9 * longer.time_s, rel=0.1)
    text = estimate.warning("one", longer)
    assert text == "one: about 8 s, but 1 min if NPUs differ that are simulated as one (2 for 16)"
    flow = variant.experiment.model_copy(update={"network": variant.experiment.network.comparable()[-1]})
    assert estimate.of(flow, preview).time_told_apart_s is None
