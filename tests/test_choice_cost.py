"""What a choice of `auto` costs: a bounded amount of work, whatever it has to choose among."""

from __future__ import annotations

import pytest

from support.experiments import study
from support.registry import WITH_CONTENTION
from syncline.core.attempt import Attempt
from syncline.engine import choice, trials
from syncline.engine import runs as engine
from syncline.experiment.load import Variant

DEAR = (
    # Trees over all that share every link, whose shares cost the flow backend more than events.
    'topology: "Torus(4,3)_Switch(5, efficiency=1%)_FullyConnected(4, latency=1ms)"\n'
    "network: NETWORK\nworkload: {collective: all-reduce, size: 4KiB}\n",
    # The root of a reduction sends nothing, and the others a lot.
    'topology: "FullyConnected(4, rate=200GB/s)_Switch(8, rate=200GB/s)"\n'
    "network: NETWORK\nworkload: {collective: reduce, size: 200MB}\n",
)


@pytest.mark.parametrize("network", WITH_CONTENTION)
@pytest.mark.parametrize("text", DEAR)
def test_all_attempts_together_cost_what_they_may(text: str, network: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a part of the work, so that much of it is used up."""
    work = trials.WORK // 40
    monkeypatch.setattr(trials, "WORK", work)
    monkeypatch.setattr(choice, "_settled", {})
    done: list[Attempt] = []
    attempt = engine.attempt

    def noted(variant: Variant, *limits: int, prepared: engine.Prepared | None = None) -> Attempt:
        done.append(attempt(variant, *limits, prepared=prepared))
        return done[-1]

    monkeypatch.setattr(engine, "attempt", noted)
    wanted = f"name: a\n{text.replace('NETWORK', network)}collective: {{algorithm: auto, chunks: 1}}\n"
    (variant,) = choice.settled(study(wanted)).variants
    assert variant.choice is not None
    spent = sum(one.work for one in done)
    # A run that is too costly ends after the event that makes it so: all frames of a message that begins.
    assert 0 < spent <= 2 * work
    assert "from bytes and steps" not in variant.choice.because  # what is known of some is not thrown away


def test_shares_of_links_are_work() -> None:
    """Each of many messages that cross one another's links costs more than its events."""
    text = 'name: a\ntopology: "Torus(4,4,2)"\nnetwork: NETWORK\nworkload: {collective: all-to-all, size: 999999B}\n'
    text += "collective: {algorithm: direct, chunks: 7, inflight: 3}\nfold: off\n"
    flow, plain = (engine.attempt(study(text.replace("NETWORK", name)).variants[0]) for name in ("flow", "analytical"))
    assert flow.work > flow.events
    assert plain.work < plain.events * 1.2  # links of routes
    half = engine.attempt(study(text.replace("NETWORK", "flow")).variants[0], most_work=flow.work // 2)
    assert half.ending == "costly"
    assert half.work <= flow.work // 2 + flow.work // 10


def test_slices_are_looked_for_once() -> None:
    text = 'name: a\ntopology: "Ring(8)"\nnetwork: flow\nworkload: {collective: broadcast, size: 64MB}\n'
    (variant,) = study(f"{text}collective: {{algorithm: one-hop-trees, chunks: 1}}\n").variants
    candidate = trials.previewed("one-hop-trees", variant)
    assert candidate.preview is not None
    assert candidate.variant.experiment.collective.slices == candidate.preview.slices
    assert (candidate.preview.slices or 0) > 1
    assert engine.attempt(variant).time_ps == engine.attempt(candidate.variant).time_ps


@pytest.mark.parametrize("topology", ["Ring(16)", "dgx-h100(nodes=2)"])
def test_a_run_has_the_slices_that_its_trial_had(topology: str) -> None:
    """They are looked for once, and a search that is not repeated finds the same."""
    text = f'name: a\ntopology: "{topology}"\nnetwork: flow\nworkload: {{collective: broadcast, size: 64MB}}\n'
    (chosen,) = choice.settled(study(f"{text}collective: {{algorithm: auto}}\n")).variants
    assert chosen.choice is not None
    (stated,) = study(f"{text}collective: {{algorithm: {chosen.choice.chosen}}}\n").variants
    assert (chosen.choice.slices or 0) > 1
    assert chosen.choice.slices == engine.preview(stated).slices == engine.preview(chosen).slices
    assert engine.run(chosen).summary["total_ps"] == engine.run(stated).summary["total_ps"]


def test_the_first_pipeline_runs_to_its_end_and_rules_others_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """By what crosses their links: chunks and slices of those are not looked for."""
    seen: list[str] = []
    previewed = trials.previewed

    def noted(name: str, variant: Variant) -> trials.Candidate:
        if variant.experiment.collective.slices is None:
            seen.append(name)
        return previewed(name, variant)

    monkeypatch.setattr(trials, "previewed", noted)
    monkeypatch.setattr(choice, "_settled", {})
    text = 'name: a\ntopology: "dgx-a100(nodes=8)"\nnetwork: flow\nworkload: {collective: broadcast, size: 1GiB}\n'
    (variant,) = choice.settled(study(f"{text}collective: {{algorithm: auto}}\n")).variants
    assert variant.choice is not None
    assert variant.choice.chosen == "ring"
    assert not {"double-binary-tree", "one-hop-trees", "halving-doubling"} & set(seen)


def test_chunks_that_nobody_sends_are_work() -> None:
    """An NPU alone looks at every chunk, and has no events."""
    text = 'name: a\ntopology: "Ring(1)"\nworkload: {collective: all-reduce, size: 64MiB}\n'
    (variant,) = study(f"{text}collective: {{algorithm: ring, chunks: 100000}}\n").variants
    names = [str(number) for number in range(8)]
    raced = trials.race([trials.previewed(name, variant) for name in names], work=100_000)
    assert [c.name for c in raced if c.attempt is not None] == names[:1]
