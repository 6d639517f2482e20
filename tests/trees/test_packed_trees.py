"""`collective.algorithm: packed-trees` wherever collectives are: studies, groups, jobs, graphs, sweeps, `auto`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest

from support.command import Ended
from support.experiments import study
from syncline.base.errors import InputError
from syncline.engine import choice, completing, planned
from syncline.engine import runs as engine
from syncline.engine.chunking import MB, miad
from syncline.treegen import hybrid, servers

Command = Callable[..., Ended]

TRAINING: Final = (
    'name: t\ntopology: dgx1v\ngpus: "1,4,5,6"\nnetwork: flow\n'
    "workload: {model: resnet50, batch: 1, element: 4B}\ntraining: {tail: drain}\n"
    "collective: {algorithm: ALGORITHM}\n"
)
COLLECTIVE: Final = (
    "name: c\ntopology: MACHINE\nnetwork: BACKEND\nworkload: {collective: all-reduce, size: SIZE, element: 4B}\n"
    "collective: {algorithm: packed-trees}\n"
)


def summary(text: str) -> dict[str, Any]:
    (variant,) = choice.settled(study(text)).variants
    return engine.run(variant).summary


def plans(text: str) -> list[dict[str, Any]]:
    (variant,) = study(text).variants
    found: list[dict[str, Any]] = completing.specification(variant.experiment)["collectives"]["plans"]
    return found


def collective(machine: str, size: str, backend: str = "flow") -> str:
    return COLLECTIVE.replace("MACHINE", machine).replace("SIZE", size).replace("BACKEND", backend)


def slices(plan: dict[str, Any]) -> int:
    (program,) = plan["plan"]["programs"]
    return max(int(loop["times"]) for rank in program["ranks"] for thread in rank for loop in thread)


def test_training_communicates_over_trees() -> None:
    """These GPUs have no ring of NVLinks, over which 102 MB of gradients take some milliseconds."""
    times = {name: summary(TRAINING.replace("ALGORITHM", name))["total_ps"] for name in ("packed-trees", "ring")}
    assert times["packed-trees"] < times["ring"] / 2


def test_plans_of_training_go_up_to_sizes() -> None:
    """Larger collectives have more slices, and the plan of the largest has no end."""
    found = plans(TRAINING.replace("ALGORITHM", "packed-trees"))
    assert "up_to_bytes" not in found[-1]
    sizes = [int(plan["up_to_bytes"]) for plan in found[:-1]]
    assert sizes == sorted(set(sizes))
    assert len(found) > 5
    numbers = [slices(plan) for plan in found]
    assert numbers == sorted(numbers)
    assert numbers[0] < numbers[-1]


def test_chunks_are_what_a_plan_carries_out() -> None:
    """A collective in sixteen chunks has as many slices in each as one of a sixteenth of the size."""
    whole = plans(collective("dgx1v", "16MB"))
    cut = plans(collective("dgx1v", "256MB").replace("trees}", "trees, chunks: 16}"))
    assert whole == cut
    assert plans(collective("dgx1v", "256MB")) != cut


def test_settings_of_trees_act() -> None:
    text = collective("dgx1v", "64MB")
    few = plans(text.replace("all-reduce", "broadcast").replace("trees}", "trees, trees: {objective: trees}}"))
    shallow = plans(text.replace("all-reduce", "broadcast").replace("trees}", "trees, trees: {objective: depth}}"))
    assert few != shallow
    assert slices(plans(text.replace("trees}", "trees, slices: 7}"))[0]) == 7
    apart = text.replace("network", 'gpus: "0,6"\nnetwork')
    with pytest.raises(InputError, match="do not connect GPUs 0,6"):
        summary(apart)
    assert summary(apart.replace("trees}", "trees, trees: {links: all}}"))["total_ps"] > 0


@pytest.mark.parametrize("backend", ["analytical", "flow", "packet", "ethernet"])
def test_trees_run_on_every_backend(backend: str) -> None:
    assert summary(collective("dgx1v", "1MB", backend))["total_ps"] > 0


@pytest.mark.parametrize("size", ["0B", "4B", "7kB", "1000003B"])
@pytest.mark.parametrize("gpus", ["0", "0,3", "0,1,2"])
def test_odd_sizes(gpus: str, size: str) -> None:
    text = collective("dgx1v", size).replace("network", f'gpus: "{gpus}"\nnetwork')
    took = summary(text)["total_ps"]
    assert (took > 0) == (size != "0B" and gpus != "0")


def test_groups_that_are_alike_have_one_plan() -> None:
    """The same GPUs of two servers, which share no link, take as long side by side as alone."""
    text = collective('"dgx1v(nodes=2)"', "64MB")
    both = text.replace("network", 'groups: "0-3;8-11"\nnetwork')
    alone = text.replace("network", 'groups: "8-11"\nnetwork')
    assert summary(both)["total_ps"] == summary(alone)["total_ps"]
    with pytest.raises(InputError, match="linked in different ways"):
        summary(text.replace("network", 'groups: "0-3;9,12-14"\nnetwork'))


def test_jobs_have_trees_of_their_own() -> None:
    job = "workload: {model: resnet50, batch: 1, element: 4B}"
    text = (
        "name: j\ntopology: dgx1v\nnetwork: flow\ntraining: {tail: drain}\n"
        f'jobs:\n  - {{name: one, npus: "1,4-6", {job}, collective: {{algorithm: packed-trees}}}}\n'
        f'  - {{name: two, npus: "0,2,3", {job}}}\ncollective: {{algorithm: ring, chunk: 4MB}}\n'
    )
    trees = {entry["name"]: entry["time_ps"] for entry in summary(text)["jobs"]}
    rings = {
        entry["name"]: entry["time_ps"]
        for entry in summary(text.replace(", collective: {algorithm: packed-trees}", ""))["jobs"]
    }
    assert trees["one"] < rings["one"]


def test_auto_takes_trees_where_they_are_the_fastest() -> None:
    (variant,) = choice.settled(study(TRAINING.replace("ALGORITHM", "auto"))).variants
    assert variant.choice is not None
    assert variant.choice.chosen == "packed-trees"


def test_an_experiment_and_the_command_are_the_same(syncline_command: Command) -> None:
    flags = ["--machine", "dgx1v", "--backend", "flow", "--algorithm", "packed-trees", "--json"]
    ended = syncline_command("collective", "all-reduce", "--size", "64MB", *flags, "--set", "workload.element=4B")
    document = json.loads(ended.out)
    assert document["algorithm"] == "packed-trees"
    assert round(document["time_s"] * 1e12) == summary(collective("dgx1v", "64MB"))["total_ps"]


def test_trees_of_servers_have_one_objective() -> None:
    text = collective('"dgx1v(nodes=2)"', "1MB").replace("trees}", "trees, trees: {objective: depth}}")
    with pytest.raises(InputError, match="predicted to be fastest"):
        summary(text)
    assert summary(text.replace("{objective: depth}", "{objective: depth, links: all}"))["total_ps"] > 0


def test_slices_that_are_found_by_trial_are_hardly_better() -> None:
    """As Blink chooses chunks (section 4.2.1), from iteration to iteration; predictions need no iterations."""
    size = 100 * MB
    text = collective("dgx1v", f"{size}B").replace("network: flow", "network: flow\nendpoint: {kind: streams}")

    def throughput(slices: str) -> float:
        return float(size / summary(text.replace("trees}", f"trees, slices: {slices}}}"))["total_ps"])

    history = miad(lambda chunk: throughput(str(-(-size // chunk))), largest=size)
    found = max(trial.throughput for trial in history)
    best = max(throughput(str(slices)) for slices in range(1, 33))
    assert found > 0.95 * best
    assert throughput("auto") > 0.9 * best


def test_a_sweep_goes_over_allocations(tmp_path: Path, syncline_command: Command) -> None:
    (tmp_path / "base.yaml").write_text(collective("dgx1v", "64MB"))
    sweep = (
        'name: s\nbase: base.yaml\naxes:\n  gpus: ["0,1,3", "1,4-6"]\n  collective.algorithm: [packed-trees, ring]\n'
    )
    (tmp_path / "s.sweep.yaml").write_text(sweep)
    ended = syncline_command("sweep", str(tmp_path / "s.sweep.yaml"), "--out", str(tmp_path / "t.csv"))
    assert ended.status == 0, ended.err
    assert len((tmp_path / "t.csv").read_text().splitlines()) == 5


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("all-reduce", "all-to-all"), "no trees carry out all-to-all"),
        (("MACHINE", "Ring(4)"), "no links by name"),
        (("packed-trees}", "ring, trees: {links: all}}"), "no trees are packed"),
        (("packed-trees}", "packed-trees, trees: {links: pci}}"), "pci"),
    ],
)
def test_what_is_refused(change: tuple[str, str], said: str) -> None:
    text = COLLECTIVE.replace(*change).replace("MACHINE", "dgx1v").replace("SIZE", "1MB").replace("BACKEND", "flow")
    with pytest.raises(InputError, match=said):
        study(text)


@pytest.mark.parametrize(("gpus", "links"), [("0,1", 38.12), ("0-2", 63.12)])
def test_trees_over_all_links_take_pcie_beside_nvlinks(gpus: str, links: float) -> None:
    """The fabric would take the NVLink for what is to go over PCIe between the same GPUs."""
    text = (
        collective("dgx1v", "1GB").replace("network", f'gpus: "{gpus}"\nnetwork', 1).replace("all-reduce", "broadcast")
    )
    both = text.replace("trees}", "trees, trees: {links: all}}")
    throughput = {
        name: 1e12 * 10**9 / summary(each)["total_ps"] / 1e9 for name, each in (("all", both), ("auto", text))
    }
    assert throughput["all"] == pytest.approx(links, rel=0.01)
    assert throughput["auto"] < 0.85 * throughput["all"]


@pytest.mark.parametrize(
    ("module", "search", "text"),
    [
        (servers, "ways", collective('"dgx1v(nodes=2)"', "3MB").replace("network", 'gpus: "0-2,8-12"\nnetwork', 1)),
        (
            hybrid,
            "of",
            collective("dgx1v", "3MB")
            .replace("network", 'gpus: "0-2"\nnetwork', 1)
            .replace("trees}", "trees, trees: {links: hybrid}}"),
        ),
    ],
)
def test_a_page_has_the_trees_that_the_run_found(
    module: ModuleType, search: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are not looked for a second time, nor for another number of slices."""
    planned._of_network.cache_clear()
    looked: list[object] = []
    found = getattr(module, search)

    def counted(*where: Any, **how: Any) -> Any:
        looked.append(where)
        return found(*where, **how)

    monkeypatch.setattr(module, search, counted)
    (variant,) = study(text).variants
    engine.run(variant)
    assert len(looked) == 1
    shown = engine.trees(variant)
    assert shown
    assert all(each.best.packing.trees for each in shown)
    (sliced,) = study(text.replace("packed-trees", "packed-trees, slices: 3")).variants
    engine.run(sliced)
    assert len(looked) == 1
