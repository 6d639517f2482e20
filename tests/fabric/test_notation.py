"""Machine strings and allocations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncline.fabric import allocation, notation
from syncline.fabric.allocation import AllocationError
from syncline.fabric.machines import MACHINES
from syncline.fabric.notation import MachineError


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("dgx1v", "dgx1v"),
        (" DGX-A100 ", "dgx-a100"),
        ("dgx2()", "dgx2"),
        ("dgx2(nodes=1)", "dgx2"),
        ("dgx-h100(nodes=16,nic_rate=400Gb/s)", "dgx-h100(nodes=16, nics=rail, nic_rate=50GB/s)"),
        ("dgx1v(nodes=2, nics=single)", "dgx1v(nodes=2, nics=single)"),
        ("dgx-h100(nodes=2, nics=4)", "dgx-h100(nodes=2, nics=4)"),
        ("dgx-h100(nodes=2, nics=8)", "dgx-h100(nodes=2, nics=rail)"),
        ("dgx-h100(nodes=2, nics=1)", "dgx-h100(nodes=2, nics=single)"),
        ("dgx-h100(nodes=2, nics=32, nic_rate=100Gb/s)", "dgx-h100(nodes=2, nics=32, nic_rate=12500MB/s)"),
        ("gb200-nvl72(nodes=2, nics=36)", "gb200-nvl72(nodes=2, nics=36)"),
        ("dgx2(nodes=3, oversubscription=3:2)", "dgx2(nodes=3, nics=rail, oversubscription=3:2)"),
        ("dgx2(efficiency=94%)", "dgx2(efficiency=94%)"),
        ("dgx1v(pcie_efficiency=75%)", "dgx1v(pcie_efficiency=75%)"),
        ("dgx2(nodes=2, pcie_rate=256Gb/s)", "dgx2(nodes=2, nics=rail, pcie_rate=32GB/s)"),
        ("GB200-NVL72(trays=18)", "gb200-nvl72"),
        ("gb200-nvl72(nodes=2, trays=2)", "gb200-nvl72(trays=2, nodes=2, nics=rail)"),
    ],
)
def test_machines(text: str, canonical: str) -> None:
    cluster = notation.parse(text)
    assert str(cluster) == canonical
    assert notation.parse(canonical) == cluster
    assert cluster.npus == cluster.graph().npus


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the machine is empty"),
        ("dgx1v(", "this is not a machine"),
        ("dgx1", "'dgx1' is not a machine; did you mean 'dgx1v'?"),
        ("dgxa100", "'dgxa100' is not a machine; did you mean 'dgx-a100'?"),
        ("dgx2(node=2)", "in dgx2: 'node' is not a parameter; did you mean 'nodes'?"),
        ("dgx2(4)", "in dgx2: '4' is not a parameter"),
        ("dgx2(nodes)", "in dgx2: nodes has no value"),
        ("dgx2(nodes=2,)", "in dgx2: '' is not a parameter"),
        ("dgx2(nodes=2, nodes=3)", "in dgx2: nodes is given twice"),
        ("dgx2(nodes=0)", "in dgx2: nodes=0: this is not a number of machines"),
        ("dgx2(nodes=2000)", "in dgx2: nodes=2000: this is not a number of machines"),
        ("dgx2(nodes=2, nics=rails)", "in dgx2: nics=rails: this is not known; did you mean 'rail'?"),
        ("dgx-h100(nodes=2, nics=3)", "in dgx-h100: nics=3: so many NICs cannot be shared evenly by 8 GPUs"),
        ("dgx-h100(nodes=2, nics=12)", "in dgx-h100: nics=12: so many NICs cannot be shared evenly by 8 GPUs"),
        ("dgx-h100(nodes=2, nics=0)", "in dgx-h100: nics=0: so many NICs cannot be shared evenly by 8 GPUs"),
        (
            "gb200-nvl72(nodes=2, nics=24)",
            "in gb200-nvl72: nics=24: so many NICs cannot be shared evenly by 72 GPUs of",
        ),
        ("dgx-h100(nics=4)", "in dgx-h100: nics has no meaning for a single server"),
        ("dgx2(nics=rail)", "in dgx2: nics has no meaning for a single server"),
        ("dgx2(nodes=2, nic_rate=200)", "in dgx2: nic_rate=200: the unit is missing: write one of B/s, kB/s, MB/s"),
        (
            "dgx2(nodes=2, nics=single, oversubscription=2)",
            "in dgx2: with nics=single there is one switch, so no spine",
        ),
        ("dgx2(nodes=2, oversubscription=0.5)", "in dgx2: oversubscription=0.5: this is not a ratio"),
        ("dgx2(nodes=2, nic_rate=1B/s, oversubscription=64)", "in dgx2: nic_rate=1B/s: this is out of range"),
        ("dgx2(trays=2)", "in dgx2: it has no trays"),
        ("gb200-nvl72(trays=19)", "in gb200-nvl72: trays=19: this is not a number of trays"),
        ("gb200-nvl72(nodes=2, nics=single)", "in gb200-nvl72: nics=single: not all GPUs reach one common NIC"),
        ("dgx2(pcie_efficiency=80%)", "in dgx2: pcie_efficiency has no meaning for a single server"),
        ("dgx2(pcie_rate=16GB/s)", "in dgx2: pcie_rate has no meaning for a single server"),
        ("dgx1v(pcie_rate=1B/s)", "in dgx1v: pcie_rate=1B/s: this leaves a PCIe link less than 1 B/s"),
        (
            "dgx1v(pcie_efficiency=0.00000000001%)",
            "in dgx1v: pcie_efficiency=0.00000000001%: this leaves a PCIe link less",
        ),
        ("dgx2(efficiency=0.0000000001%)", "in dgx2: efficiency=0.0000000001%: this leaves an NVLink less"),
    ],
)
def test_refusals_say_why(text: str, message: str) -> None:
    with pytest.raises(MachineError) as refused:
        notation.parse(text)
    assert refused.value.message.startswith(message)
    assert refused.value.accepted


WORDS = st.sampled_from(
    [
        *MACHINES,
        *notation.PARAMETERS,
        "(",
        ")",
        ",",
        "=",
        "rail",
        "single",
        "2",
        "1.5",
        "25GB/s",
        "1us",
        "94%",
        " ",
        "0",
        "-",
    ]
)


@given(st.text(max_size=40) | st.lists(WORDS, max_size=12).map("".join))
def test_anything_is_a_machine_or_a_machine_error(text: str) -> None:
    try:
        cluster = notation.parse(text)
    except MachineError as error:
        assert error.message
        assert error.accepted
    else:
        assert notation.parse(str(cluster)) == cluster


@pytest.mark.parametrize(
    ("text", "gpus", "canonical"),
    [
        ("0,1,3", (0, 1, 3), "0-1,3"),
        ("8-11, 0-3", (0, 1, 2, 3, 8, 9, 10, 11), "0-3,8-11"),
        ("5", (5,), "5"),
        (" 0 - 2 ,15", (0, 1, 2, 15), "0-2,15"),
    ],
)
def test_allocations(text: str, gpus: tuple[int, ...], canonical: str) -> None:
    assert allocation.parse(text, 16) == gpus
    assert allocation.canonical(gpus) == canonical


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the list of GPUs is empty"),
        ("0,,1", "'' is neither a number nor a range"),
        ("0-", "'0-' is neither a number nor a range"),
        ("gpu0", "'gpu0' is neither a number nor a range"),
        ("3-1", "the range '3-1' runs backwards"),
        ("0,8", "there is no GPU 8: the machine has 8 GPUs"),
        ("0-999999999", "there is no GPU 999999999: the machine has 8 GPUs"),
        ("0-3,2", "GPU 2 is listed twice"),
        ("0-7,0-7,0-7", "GPU 0 is listed twice"),
    ],
)
def test_what_is_no_allocation(text: str, message: str) -> None:
    with pytest.raises(AllocationError) as refused:
        allocation.parse(text, 8)
    assert refused.value.message == message


@given(st.sets(st.integers(0, 63), min_size=1))
def test_canonical_allocations_are_read_back(gpus: set[int]) -> None:
    assert allocation.parse(allocation.canonical(gpus), 64) == tuple(sorted(gpus))


@given(st.text(alphabet="0123456789,- x", max_size=30))
def test_anything_is_an_allocation_or_an_allocation_error(text: str) -> None:
    try:
        assert allocation.parse(text, 16)
    except AllocationError as error:
        assert error.accepted


def test_nvlink_connectivity_of_allocations() -> None:
    graph = notation.parse("dgx1v").graph()
    assert allocation.nvlink_components(graph, (0, 1, 4)) == [[0, 1, 4]]
    assert allocation.nvlink_components(graph, (1, 4, 5, 6)) == [[1, 4, 5, 6]]
    assert allocation.nvlink_components(graph, (0, 1, 6, 7)) == [[0, 1], [6, 7]]
    star = notation.parse("dgx2").graph()
    assert allocation.nvlink_components(star, (0, 15)) == [[0, 15]]
    cluster = notation.parse("dgx-a100(nodes=2)").graph()
    assert allocation.nvlink_components(cluster, (0, 7, 8)) == [[0, 7], [8]]


def test_a_restricted_machine_keeps_its_switches() -> None:
    graph = allocation.restricted(notation.parse("dgx1v").graph(), (1, 4, 5, 6))
    assert [node.name for node in graph.nodes[:4]] == ["GPU 1", "GPU 4", "GPU 5", "GPU 6"]
    assert (graph.npus, len(graph.nodes), graph.name) == (4, 10, "dgx1v [1,4-6]")
