"""What a study says, in sentences computed from its numbers."""

from __future__ import annotations

from syncline.report.escape import short
from syncline.results.study import Study, Variant, mapping
from syncline.results.units import factor, percent, ratio, time
from syncline.sections.networks.timeouts import sentence


def headline(study: Study) -> str:
    """The answer in one or two sentences."""
    ranked = study.ranked
    if not ranked:
        return "No variant of this study has a result."
    best = ranked[0]
    unit = "per iteration" if study.is_training else "in total"
    if len(ranked) == 1:
        text = f"{called(best)} takes {time(best.time_s)} {unit}"
        share = exposed_share(best)
        if share is not None and study.is_training:
            text += f", of which {percent(share)} is exposed communication"
        return text + _ideal(study, best) + "."
    second, baseline = ranked[1], study.baseline
    gain = ratio(second.time_s, best.time_s) or 1.0
    if gain >= 1.0005 and baseline is not None and baseline is study.ideal and not study.ideal_is_beaten:
        text = f"{called(best)} comes closest to the baseline {called(baseline)} with {time(best.time_s)} {unit}"
        return text + f" against {time(baseline.time_s)}" + _ideal(study, best) + "."
    if gain < 1.0005:
        text = f"{called(best)} and {called(second)} are equally fast with {time(best.time_s)} {unit}"
    else:
        text = f"{called(best)} is the fastest with {time(best.time_s)} {unit}"
    if gain < 1.0005 and baseline in (best, second):
        pass
    elif baseline is best:
        text += f", as the baseline; {called(second)} is {factor(ratio(best.time_s, second.time_s))} as fast"
    elif baseline is not None:
        text += f", {factor(ratio(baseline.time_s, best.time_s))} as fast as the baseline {called(baseline)}"
    return text + _ideal(study, best) + "."


def _ideal(study: Study, best: Variant) -> str:
    bound = study.ideal
    if bound is None or bound is best:
        return ""
    if study.ideal_is_beaten:
        return f"; {called(bound)}, with {time(bound.time_s)}, is not a bound here (see the warnings)"
    share = ratio(bound.time_s, best.time_s)
    return f"; it reaches {percent(share)} of the performance of {called(bound)}"


def npus(study: Study) -> list[str]:
    """What computes: a line, or one for each variant where they differ."""
    described = {v.npus for v in study.variants} - {""}
    if len(described) < 2:
        return [f"NPUs: {text}." for text in described]
    return [f"NPUs of {called(v)}: {v.npus}." for v in study.variants if v.npus]


def one_more(study: Study) -> list[str]:
    """What one more iteration costs, where that is not the headline, and why."""
    found: dict[str, list[Variant]] = {}
    for v in study.variants:
        if v.steady_because:
            found.setdefault(v.steady_because, []).append(v)
    return [
        f"One more iteration costs {', '.join(f'{time(v.steady_s)} with {called(v)}' for v in those)}: {reason}."
        for reason, those in found.items()
    ]


def timeouts(study: Study) -> list[str]:
    """Per variant whose network waited for retransmission timers: what that cost."""
    found = [(v, sentence(mapping(v.run.get("network")), v.total_s or 0.0)) for v in study.variants]
    several = len(study.variants) > 1
    return [f"{called(v)}: {text}." if several else f"{text[0].upper()}{text[1:]}." for v, text in found if text]


def called(v: Variant) -> str:
    """The name of a variant within a sentence."""
    return short(v.name, 48)


def exposed_share(v: Variant) -> float | None:
    """Exposed communication over the time that variants are compared by."""
    return ratio(v.per_iteration(v.exposed_s), v.time_s)


def cause(study: Study) -> list[str]:
    """Per variant that waits: what it waits for most."""
    sentences = []
    for v in study.variants:
        total = sum(e.exposed_s for e in v.exposures)
        if not total:
            continue
        top = v.exposures[0]
        what = f"{short(top.layer, 48)} ({words(top.what)})" if top.what else short(top.layer, 48)
        text = (
            f"{called(v)}: {percent(ratio(top.exposed_s, total), 0)} of "
            f"{time(v.per_iteration(total))} exposed is waiting for {what}"
        )
        waits = sorted(((r["wait_s"] or 0.0, name) for name, r in v.resources), key=lambda w: (-w[0], w[1]))
        if waits and waits[0][0] > 0:
            text += f"; its messages wait longest for {words(waits[0][1])}"
        sentences.append(text + ".")
    return sentences


def words(identifier: str) -> str:
    """`weight_grad` as people write it."""
    return identifier.replace("_", " ")
