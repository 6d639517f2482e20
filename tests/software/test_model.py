"""The time model: its parts, its choices, its interval and its anchor; platforms and class files."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncline.errors import InputError
from syncline.software import constants, model, printing, wire
from syncline.software.platform import NAMES, Platform, platform

MIB = 2**20
GIB = 2**30
SIZES = st.integers(1, 34).map(lambda k: 2**k)


@st.composite
def platforms(draw: st.DrawFn) -> Platform:
    box = draw(st.sampled_from(NAMES))
    return platform(f"{box}(nodes={draw(st.sampled_from((1, 2, 3, 8)))}, gpus={draw(st.integers(1, 8))})")


class TestTimes:
    def test_a_candidate_is_the_sum_of_its_parts(self) -> None:
        h100 = model.open_model(platform("dgx-h100"), algorithm="ring")
        best = h100.candidates(GIB)[0]
        c = h100.software.constants
        assert best.protocol == "Simple"
        assert best.wire == pytest.approx(1.75 * GIB / (450e9 * c.efficiency_simple))
        assert best.latency == pytest.approx(14 * constants.STEPS_S["Simple"])
        assert best.time == pytest.approx(c.launch + c.base_simple + best.latency + best.wire)

    def test_nvls_beats_what_a_ring_could(self) -> None:
        large = model.open_model(platform("dgx-h100")).predict(16 * GIB)
        bus = large.algorithm_bandwidth * 1.75
        assert large.algorithm == "nvls"
        assert 450e9 < bus < 500e9
        ring = model.open_model(platform("dgx-h100"), algorithm="ring").predict(16 * GIB)
        assert 320e9 < ring.algorithm_bandwidth * 1.75 < 380e9

    def test_two_nodes_are_not_bound_by_their_nics_with_a_tree(self) -> None:
        two = platform("dgx-a100(nodes=2, nics=single)")
        ring = model.open_model(two, algorithm="ring").time(GIB)
        tree = model.open_model(two, algorithm="tree").time(GIB)
        assert ring / tree == pytest.approx(15 / 8, rel=0.02)

    @given(platforms(), SIZES, st.sampled_from(wire.KINDS))
    def test_more_bytes_take_longer(self, where: Platform, size: int, kind: str) -> None:
        predicted = model.open_model(where, kind=kind)
        assert 0 < predicted.time(size) <= predicted.time(2 * size) * (1 + 1e-12)

    @given(platforms(), SIZES)
    def test_the_interval_holds_the_time(self, where: Platform, size: int) -> None:
        p = model.open_model(where).predict(size)
        assert p.low < p.time < p.high

    def test_small_sizes_are_less_certain(self) -> None:
        a100 = model.open_model(platform("dgx-a100"))
        small, large = a100.predict(8), a100.predict(GIB)
        assert small.high / small.low > 2
        assert large.high / large.low < 1.12

    @given(st.lists(st.floats(1e-6, 1), min_size=1, max_size=3))
    def test_the_smooth_minimum_is_just_below_the_least(self, times: list[float]) -> None:
        least = min(times)
        assert least * 3 ** (-1 / 8) * (1 - 1e-12) <= model.smooth_minimum(times) <= least * (1 + 1e-12)


class TestSmallSizeTime:
    def test_it_is_met(self) -> None:
        for text in ("dgx-a100", "dgx-h100(nodes=2)"):
            anchored = model.open_model(platform(text), small_size_time=50e-6)
            assert anchored.time(8) == pytest.approx(50e-6, rel=1e-6)
            assert anchored.predict(8).high / anchored.predict(8).low < 1.7

    def test_it_leaves_large_sizes_alone(self) -> None:
        plain = model.open_model(platform("dgx-a100"))
        anchored = plain.at_small_size(18e-6)
        assert anchored.time(4 * GIB) == pytest.approx(plain.time(4 * GIB), rel=1e-3)

    def test_a_time_that_cannot_be(self) -> None:
        with pytest.raises(InputError, match="8 bytes take 8"):
            model.open_model(platform("dgx-a100"), small_size_time=2e-6)


class TestPlatform:
    @pytest.mark.parametrize("text", [*NAMES, "dgx-h100(nodes=2)", "dgx2(gpus=12)", "dgx-a100(nodes=4, nics=single)"])
    def test_it_reads_what_it_writes(self, text: str) -> None:
        assert str(platform(text)) == text
        assert platform(
            f" {text} ".upper()
            .replace("NODES", "nodes")
            .replace("GPUS", "gpus")
            .replace("NICS", "nics")
            .replace("SINGLE", "single")
        ) == platform(text)

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            ("dgxh100", "this machine is not known; did you mean 'dgx-h100'?"),
            ("dgx-h100(nodes=0)", "nodes=0 is out of range"),
            ("dgx-h100(nodes=2, nodes=3)", "nodes is written twice"),
            ("dgx-h100(2)", "'2' is not NAME=VALUE"),
            ("dgx-h100(node=2)", "'node' is not a parameter of a machine; did you mean 'nodes'?"),
            ("dgx-h100(nics=two)", "nics=two is not known"),
            ("dgx-a100(gpus=9)", "gpus=9 is out of range"),
            ("", "this is not a machine"),
        ],
    )
    def test_refusals(self, text: str, reason: str) -> None:
        with pytest.raises(InputError) as caught:
            platform(text)
        assert reason in caught.value.problems[0].message
        assert caught.value.problems[0].accepted

    @given(st.text(max_size=40))
    def test_any_text_is_read_or_refused(self, text: str) -> None:
        try:
            platform(text)
        except InputError as error:
            assert error.problems[0].accepted


class TestClassFiles:
    @pytest.mark.parametrize("name", constants.names())
    def test_they_read_what_they_write(self, name: str) -> None:
        loaded = constants.load(name)
        assert constants.parse(constants.render(loaded), "again") == loaded
        assert loaded.fitted_on

    def test_every_machine_has_one(self) -> None:
        assert {platform(name).software for name in NAMES} <= set(constants.names())

    def test_every_error_at_once(self, tmp_path: Path) -> None:
        text = constants.render(constants.load("a100-nvswitch"))
        text = text.replace("launch: ", "launch: 5 # ").replace("efficiency_ll: ", "efficency_ll: ")
        text = text.replace("network_latency_scale: ", "network_latency_scale: -")
        path = tmp_path / "bad.yaml"
        path.write_text(text)
        with pytest.raises(InputError) as caught:
            constants.load(str(path))
        messages = " | ".join(str(p) for p in caught.value.problems)
        assert "bad.yaml:5: constants.launch: the number has no unit" in messages
        assert "did you mean 'efficiency_ll'?" in messages
        assert "efficiency_ll is missing" in messages
        assert "constants.network_latency_scale: this is out of range" in messages

    def test_a_name_that_is_none(self) -> None:
        with pytest.raises(InputError, match="did you mean 'a100-nvswitch'"):
            constants.load("a100-nvswich")

    @given(st.text(max_size=200))
    def test_any_text_is_read_or_refused(self, text: str) -> None:
        try:
            constants.parse(text, "t")
        except InputError as error:
            assert error.problems


class TestPrinting:
    def test_columns_of_nccl_tests(self) -> None:
        h100 = model.open_model(platform("dgx-h100"))
        predictions = [h100.predict(size) for size in (8, MIB, GIB)]
        lines = printing.table(h100, predictions).splitlines()
        assert lines[0] == "# all-reduce on dgx-h100: 8 GPUs, predicted"
        size, count, kind, redop, root, time, algbw, busbw, low, high = lines[-1].split()
        assert (size, count, kind, redop, root) == (str(GIB), str(GIB // 4), "float", "sum", "-1")
        assert float(busbw) == pytest.approx(float(algbw) * 1.75, rel=1e-3)
        assert float(low) < float(time) < float(high)

    def test_the_same_for_json(self) -> None:
        two = model.open_model(platform("dgx-a100"), kind="all-gather")
        (row,) = printing.rows(two, [two.predict(MIB)])
        assert row["bus_bandwidth_bytes_per_s"] == pytest.approx(row["algorithm_bandwidth_bytes_per_s"] * 7 / 8)
        assert row["time_low_s"] < row["time_s"] < row["time_high_s"]


def test_one_gpu_only_launches() -> None:
    alone = model.open_model(platform("dgx-a100(gpus=1)"))
    assert alone.time(GIB) == alone.software.constants.launch


def test_an_algorithm_that_the_machine_has_not() -> None:
    with pytest.raises(InputError, match="dgx-a100 does not run all-reduce with it"):
        model.open_model(platform("dgx-a100"), algorithm="nvls")


def test_calibrated_constants_are_more_certain() -> None:
    a100 = model.open_model(platform("dgx-a100"))
    sure = replace(a100, calibrated=True)
    assert math.log(sure.predict(8).high / sure.predict(8).low) < math.log(a100.predict(8).high / a100.predict(8).low)
