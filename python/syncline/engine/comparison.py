"""How the variants of a study compare: the one baseline of all speed-ups, the bound called ideal, and the headline
beside what one more iteration costs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

BEATEN: Final = 1.0005
"""Ratio of times from which a variant counts as faster."""
DIFFERENT: Final = 0.02
"""Relative difference from which the steady iteration time stands beside the headline."""
_IDEAL: Final = re.compile(r"(?i)(?<![a-z])ideal(?![a-z])")


def is_ideal(name: str) -> bool:
    """Whether a variant is called the bound that others are measured against."""
    return _IDEAL.search(name) is not None


def ideal(names: Iterable[str]) -> str | None:
    """The variant that is called the bound, if there are others beside it."""
    known = list(names)
    return next((name for name in known if is_ideal(name)), None) if len(known) > 1 else None


def compare(document: dict[str, Any], names: Sequence[str], baseline: str) -> None:
    """Says in the document of `run` which variant speed-ups are against, and in its entries how much faster each is.

    `names` are all variants of the study, in its order. The baseline is the first unless it is given; nothing is
    compared with a variant that has no result.
    """
    document["baseline"] = baseline or names[0]
    document["ideal"] = ideal(names)
    times = {entry["name"]: entry["iteration_time_s"] for entry in document["runs"]}
    for entry in document["runs"]:
        entry["speedup"] = quotient(times.get(document["baseline"]), entry["iteration_time_s"])
        entry["share_of_ideal"] = quotient(times.get(document["ideal"]), entry["iteration_time_s"])


def quotient(part: float | None, whole: float | None) -> float | None:
    """A quotient, or nothing where it has no meaning."""
    return None if part is None or not whole else part / whole


def steady_because(entry: Mapping[str, Any], tail: str) -> str | None:
    """Why the headline of a training run is not what one more iteration costs; nothing if they hardly differ.

    `entry` has `iterations`, `iteration_time_s` and `steady_iteration_time_s`; `tail` is that of the training loop.
    """
    headline, steady = entry["iteration_time_s"], entry["steady_iteration_time_s"]
    if steady is None or abs(steady - headline) <= DIFFERENT * headline:
        return None
    count = entry["iterations"]
    whole = "the only iteration" if count == 1 else f"the {count} iterations"
    mean = "that of" if count == 1 else "the mean of"
    if steady > headline:
        if tail == "drain":
            begins = "waits" if count == 1 else "begin with one that waits"
            return f"{whole} of the run {begins} for nothing before it"
        return (
            f"the iteration time is {mean} {whole} until the last back-propagation ends: the first waits for "
            "nothing before it, and nothing waits for what is then in flight; every further iteration waits for the "
            "one before it"
        )
    if tail == "drain":
        their = "its" if count == 1 else "their"
        return (
            f"the iteration time is {mean} {whole} and of the wait for what is in flight at {their} end "
            "(training.tail: drain), which a further iteration hides behind its forward pass"
        )
    return f"the iteration time is the mean of {whole} of the run, of which the first take longer than further ones"


def beaten_in_sweep(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """A warning for every variant that is faster than the ideal one of its point, with how often that happens.

    `rows` are those of a sweep's table: `point`, `variant`, and `iteration_time_s` or `time_s`.
    """
    points: dict[tuple[Any, Any], dict[str, float]] = {}
    for row in rows:
        time = row.get("iteration_time_s") or row.get("time_s")
        if time and row.get("variant"):  # rows of a closed form have none
            points.setdefault((row.get("base"), row.get("point")), {})[row["variant"]] = time
    gains: dict[tuple[str, str], list[float]] = {}
    for times in points.values():
        bound = ideal(times)
        for name, time in times.items():
            if bound is not None and time * BEATEN < times[bound]:
                gains.setdefault((name, bound), []).append(times[bound] / time)
    return [
        f"{name} is faster than {bound} at {len(found)} of {len(points)} points, up to {max(found):.2f} times: "
        f"{bound} is not a bound there; `syncline run` of such a point says why"
        for (name, bound), found in gains.items()
    ]
