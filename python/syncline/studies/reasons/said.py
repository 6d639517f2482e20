"""Answers in words: the same on terminals, in pages and in notebooks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from syncline.base.text_units import percent
from syncline.studies.reasons import changes, limits

SHOWN: Final = 0.001
"""The least gain of what is listed as helpful."""
BEFORE: Final = {"exposed": "exposed", "drain": "after the last kernel"}
"""What stands before the names of steps of a waterfall."""
WORDS: Final = {"weight_grad": "gradients of weights", "input_grad": "gradients of inputs"}


def part(entry: Mapping[str, Any]) -> str:
    """A part of a critical path, or a step of a waterfall."""
    name = WORDS.get(str(entry["name"]), str(entry["name"]))
    if entry["what"] == "compute":
        return name if name == "compute" else f"compute: {name}"
    kind = entry.get("collective")
    if kind and not name.startswith(f"{kind} "):
        name = f"{kind}: {name}"
    return f"{BEFORE[entry['what']]}: {name}" if entry["what"] in BEFORE else name


def resources(entry: Mapping[str, Any]) -> str:
    """The critical path by what was in use, in a sentence."""
    shares = [f"{part['name']} {percent(part['share'])}" for part in entry["by_resource"] if part["share"] >= SHOWN]
    return f"{entry['name']}, by what is in use on its critical path: {', '.join(shares)}."


def limit(entry: Mapping[str, Any]) -> str:
    """What limits a system, in a sentence without its full stop."""
    found = entry["limit"]
    by = "" if found["by"] == "reruns" else " (by accounting only, without reruns)"
    name = found["name"]
    if name == limits.NOTHING:
        return f"no single thing limits it: {found['because']}"
    if name == changes.ALL_LINKS:
        name = "links of all classes together"
    return f"limited by {name}{by}: {found['because']}"


def remarks(entry: Mapping[str, Any]) -> list[str]:
    """What else is to be known of a system, in sentences."""
    found = [] if entry["network_is_idle"] is None else [f"{entry['name']}: {entry['network_is_idle']}."]
    if entry["in_flight_at_end"]:
        found.append(
            f"{entry['name']}: {entry['in_flight_at_end']} of {entry['collectives']} collectives were in flight when "
            "the run ended, and nothing waited for them (training.iterations and training.tail say what a run is)."
        )
    return found


def helpful(entry: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Reruns that were faster, the best first."""
    return [rerun for rerun in entry["what_if"] or () if (rerun["gain"] or 0.0) >= SHOWN]


def others(entry: Mapping[str, Any]) -> list[str]:
    """What did not help, and what was not run and why, in sentences."""
    groups: dict[str, list[str]] = {"Changes nothing": [], "Makes it slower": []}
    reasons: dict[str, list[str]] = {}
    for rerun in entry["what_if"] or ():
        gain = rerun["gain"]
        if gain is None:
            reasons.setdefault(rerun["refused"], []).append(rerun["change"])
        elif gain <= -SHOWN:
            groups["Makes it slower"].append(rerun["change"])
        elif gain < SHOWN:
            groups["Changes nothing"].append(rerun["change"])
    found = [f"{what}: {', '.join(names)}." for what, names in groups.items() if names]
    return found + [f"Not run: {', '.join(names)}: {reason}." for reason, names in reasons.items()]
