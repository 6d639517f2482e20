"""The system configuration of ASTRA-sim 2.x, key by key: taken, taken with a note, or refused by name.

*Endpoint.* ASTRA-sim adds `endpoint-delay` to every message received and once before a chunk, which is the
`step_latency` of the ideal endpoint. It charges three passes over `local-mem-bw` for every message that is reduced;
the ideal endpoint has no memory, so that is left out.
*Chunks.* `preferred-dataset-splits` chunks, however small a collective is, of which `active-chunks-per-dimension` are
in flight along a dimension.
*Algorithms.* One for each dimension. Its rings use one direction only. `localBWAware` is a reduce-scatter along all
dimensions but the last, an all-reduce along that, and the all-gathers back: with rings, the six-phase composition.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from syncline.base.errors import UNKNOWN_KEY, InputError, Problem, did_you_mean, one_of, shown
from syncline.importers.json_text import Text
from syncline.importers.output import Difference

KINDS: Final = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
ALGORITHMS: Final = {
    "ring": "ring",
    "oneRing": "ring",
    "direct": "direct",
    "oneDirect": "direct",
    "doubleBinaryTree": "double-binary-tree",
    "halvingDoubling": "halving-doubling",
    "oneHalvingDoubling": "halving-doubling",
}
_WINDOW: Final = re.compile(r"(direct|oneDirect)[0-9]{1,6}")
FLAT: Final = "one"
"""What the names of algorithms begin with that take all NPUs as one dimension."""
UNREAD: Final = ("boost-mode", "intra-dimension-scheduling", "inter-dimension-scheduling")
"""Keys that sample files have, and ASTRA-sim 2.x does not read."""
RECORDING: Final = ("trace-enabled", "track-local-mem", "local-mem-trace-filename")
LOGGP: Final = ("L", "o", "g", "G")
MOST: Final = 2**40


@dataclass(slots=True)
class System:
    """What a system configuration comes to."""

    sections: dict[str, Any] = field(default_factory=dict)
    computed: bool = False
    differences: list[Difference] = field(default_factory=list)


def is_one(values: Any) -> bool:
    """Whether a JSON document may be such a file."""
    known = {*_HANDLED, *UNREAD, *RECORDING}
    return isinstance(values, dict) and sum(key in known for key in values) >= 2


def read(text: Text, dimensions: int) -> System:
    """A system configuration for a network of so many dimensions. Raises [`InputError`] with all that is wrong."""
    reader = _Reader(text, dimensions)
    reader.read()
    if reader.problems:
        raise InputError(reader.problems)
    return reader.made


@dataclass(slots=True)
class _Reader:
    text: Text
    dimensions: int
    made: System = field(default_factory=System)
    problems: list[Problem] = field(default_factory=list)
    algorithms: dict[str, list[str]] = field(default_factory=dict)
    collective: dict[str, Any] = field(default_factory=dict)
    endpoint_delay: int | float = 0
    aware: bool = False

    def read(self) -> None:
        values = self.text.values
        if not isinstance(values, dict):
            self._refuse([], "this is no system configuration", None, "a JSON object")
            return
        for key in values:
            handler = _HANDLED.get(key)
            if handler is not None:
                handler(self, key, values[key])
            elif key in UNREAD:
                self._note(key, "not read by ASTRA-sim 2.x", "left out")
            elif key in RECORDING:
                self._note(key, "what is recorded", "left out: syncline run --out records a run")
            elif key.endswith("-implementation-custom") or key == "per-node-custom-implementation":
                accepted = f"algorithms by name: {one_of(ALGORITHMS)}"
                self._refuse([key], "algorithms in traces of their own are not taken", None, accepted)
            else:
                known = [*_HANDLED, *UNREAD, *RECORDING]
                self._refuse([key], f"{UNKNOWN_KEY}{did_you_mean(key, known)}", None, one_of(known))
        self._finish(values)

    def _refuse(self, path: Sequence[str | int], message: str, value: object, accepted: str) -> None:
        self.problems.append(self.text.problem(path, message, shown(value), accepted))

    def _note(self, what: str, there: str, here: str) -> None:
        self.made.differences.append(Difference(what, there, here))

    def number(self, key: str, value: object, least: float = 0) -> float:
        """A number of at least so much."""
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= MOST:
            self._refuse([key], "this is out of range", value, f"a number from {least:g} to 2^40")
            return max(least, 1)
        return value

    def whole(self, key: str, value: object, least: int) -> int:
        """The same, without a fraction."""
        found = self.number(key, value, least)
        if found != int(found):
            self._refuse([key], "this is no whole number", value, f"a whole number from {least}")
        return int(found)

    def flag(self, key: str, value: object) -> bool:
        """0 or 1."""
        if value not in (0, 1):
            self._refuse([key], "this is neither 0 nor 1", value, "0 or 1")
        return value == 1

    def policy(self, key: str, value: object) -> None:
        """Which collective is next."""
        words = {"LIFO": "lifo", "FIFO": "fifo"}
        if not isinstance(value, str) or value not in words:
            explicit = "priorities of single nodes are not taken" if value == "EXPLICIT" else "this is not known"
            self._refuse([key], explicit, value, one_of(words))
            return
        self.collective["scheduling"] = words[value]

    def optimization(self, key: str, value: object) -> None:
        """How dimensions are composed."""
        if value not in ("baseline", "localBWAware"):
            self._refuse([key], "this is not known", value, "baseline, localBWAware")
        self.aware = value == "localBWAware"

    def splits(self, key: str, value: object) -> None:
        """Chunks of a collective."""
        self.collective["chunks"] = self.whole(key, value, 1)

    def active(self, key: str, value: object) -> None:
        """Chunks in flight."""
        self.collective["inflight_per_dimension"] = min(self.whole(key, value, 1), 65_536)

    def delay(self, key: str, value: object) -> None:
        """What a message costs."""
        self.endpoint_delay = self.number(key, value)

    def reduction(self, key: str, value: object) -> None:
        """Only read for shared buses."""
        self.number(key, value)
        self._note(key, "used by the model of a shared memory bus only", "left out")

    def rate(self, key: str, value: object) -> None:
        """Roofline rates, which `_finish` takes."""
        self.number(key, value)

    def roofline(self, key: str, value: object) -> None:
        """Whether compute time follows from operations and bytes."""
        self.made.computed = self.flag(key, value)

    def replay(self, key: str, value: object) -> None:
        """Everything as recorded."""
        if self.flag(key, value):
            self._refuse([key], "a replay of recorded times simulates no network", value, "0")

    def bus(self, key: str, value: object) -> None:
        """The bus between network and memory."""
        if self.flag(key, value):
            accepted = "0; endpoint.buses of an experiment has such a model (docs: baseline)"
            self._refuse([key], "the shared bus is not taken", value, accepted)

    def loggp(self, key: str, value: object) -> None:
        """Parameters of the bus."""
        self.number(key, value)
        self._note(key, "LogGP parameters of the memory bus, used with model-shared-bus only", "left out")

    def implementation(self, key: str, value: object) -> None:
        """The algorithm of a kind of collectives along each dimension."""
        kind = key.removesuffix("-implementation")
        if not isinstance(value, list) or not value:
            self._refuse([key], "these are no algorithms", value, "a list with an algorithm for each dimension")
            return
        found: list[str] = []
        for place, name in enumerate(value):
            plain = name
            if isinstance(name, str) and (match := _WINDOW.fullmatch(name)):
                plain = match[1]
                self._note(key, f"{name}: a limited number of messages at a time", "all messages at once")
            if not isinstance(plain, str) or plain not in ALGORITHMS:
                hint = did_you_mean(plain, ALGORITHMS) if isinstance(plain, str) else ""
                self._refuse([key, place], f"this algorithm is not known{hint}", name, one_of(ALGORITHMS))
                return
            found.append(plain)
        if len(found) != self.dimensions and not found[0].startswith(FLAT):
            accepted = f"{self.dimensions} algorithms, one for each dimension of the network"
            self._refuse([key], f"{len(found)} algorithms", None, accepted)
            return
        self.algorithms[kind] = found

    def _finish(self, values: dict[str, Any]) -> None:
        """The sections of the experiment."""
        chunks = self.collective.setdefault("chunks", 1)
        if chunks > 1:
            self.collective["least_chunk"] = "1B"  # ASTRA-sim cuts the smallest collective into as many
        self.collective["inflight"] = min(max(chunks, 1), 65_536)
        self.collective.setdefault("inflight_per_dimension", 1)
        self.collective["padding"] = "none"
        self.collective["lanes"] = "one"
        self._compose()
        if self.problems:
            return
        self.made.sections["collective"] = self.collective
        delay = f"{round(self.endpoint_delay * 1000)}ps"
        self.made.sections["endpoint"] = {"kind": "ideal", "step_latency": delay, "transit": "network"}
        if "local-mem-bw" in values:
            there = "also the cost of a reduction: 3 x bytes / local-mem-bw for every message that is reduced"
            self._note("local-mem-bw", there, "the ideal endpoint reduces in no time")
        if self.made.computed:
            missing = [key for key in ("peak-perf", "local-mem-bw") if not values.get(key)]
            if missing:
                message = f"the roofline needs {missing[0]}"
                self._refuse(["roofline-enabled"], message, None, f"{missing[0]} above 0, or roofline-enabled: 0")
                return
            peak, memory = round(values["peak-perf"] * 10**12), round(values["local-mem-bw"] * 10**9)
            self.made.sections["npu"] = {"peak": f"{peak}FLOPS", "memory_bandwidth": f"{memory}B/s"}
        elif "peak-perf" in values:
            self._note("peak-perf", "used with roofline-enabled only", "left out: compute takes what was recorded")

    def _compose(self) -> None:
        """The algorithms, as Syncline names them."""
        stated = self.algorithms
        main = stated.get("all-reduce") or next(iter(stated.values()), ["ring"] * self.dimensions)
        if self.dimensions == 1 or main[0].startswith(FLAT):
            self._flat(stated, main)
            return
        per_dimension = [ALGORITHMS[name] for name in main]
        self.collective["algorithm"] = "six-phase" if self.aware else "hierarchical"
        self.collective["per_dimension"] = per_dimension
        if self.aware:
            self._note(
                "collective-optimization: localBWAware",
                "reduce-scatter along all dimensions but the last, all-reduce along that, and all-gathers back",
                "six-phase: a reduce-scatter and an all-gather along the last one as well",
            )
        for kind, names in stated.items():
            if [ALGORITHMS[name] for name in names] == per_dimension:
                continue
            if len({ALGORITHMS[name] for name in names}) > 1 or ALGORITHMS[names[0]] != "direct":
                accepted = "the algorithms of all-reduce-implementation, or direct along every dimension"
                message = f"{kind} has other algorithms along dimensions than all-reduce"
                self._refuse([f"{kind}-implementation"], message, None, accepted)
                continue
            self.collective.setdefault("algorithms", {})[kind] = "direct"
            self._note(
                f"{kind}-implementation", "direct along one dimension after the other", "direct between all NPUs"
            )

    def _flat(self, stated: dict[str, list[str]], main: list[str]) -> None:
        """Algorithms of a single dimension, or of all NPUs as one."""
        name = ALGORITHMS[main[0]]
        if self.dimensions > 1 and name == "ring":
            accepted = "ring along every dimension, or oneDirect, oneHalvingDoubling"
            message = "a ring through all NPUs of several dimensions is not taken"
            self._refuse(["all-reduce-implementation"], message, main[0], accepted)
            return
        self.collective["algorithm"] = name
        for kind, names in stated.items():
            if ALGORITHMS[names[0]] != name:
                self.collective.setdefault("algorithms", {})[kind] = ALGORITHMS[names[0]]
        if ALGORITHMS[stated.get("all-to-all", main)[0]] == "ring" and "all-to-all" in stated:
            self._note(
                "all-to-all-implementation: ring",
                "every NPU passes on each block by itself, in N(N-1)/2 messages",
                "what has further to go is passed on at once, in N-1 messages with the same bytes",
            )


_HANDLED: Final[dict[str, Callable[[_Reader, str, Any], None]]] = {
    "scheduling-policy": _Reader.policy,
    "collective-optimization": _Reader.optimization,
    "preferred-dataset-splits": _Reader.splits,
    "active-chunks-per-dimension": _Reader.active,
    "endpoint-delay": _Reader.delay,
    "local-reduction-delay": _Reader.reduction,
    "local-mem-bw": _Reader.rate,
    "peak-perf": _Reader.rate,
    "roofline-enabled": _Reader.roofline,
    "replay-only": _Reader.replay,
    "model-shared-bus": _Reader.bus,
    **dict.fromkeys(LOGGP, _Reader.loggp),
    **{f"{kind}-implementation": _Reader.implementation for kind in KINDS},
}
"""Keys that are read, and by what."""
