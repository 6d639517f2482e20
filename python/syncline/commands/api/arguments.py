"""What is asked for beside an experiment, the same from arguments of a function and from flags of a command.

Both say the same things in other words: what a program calls `threads`, the command line calls `--threads`. A
[`Spelling`] knows the words, so that problems name what was really written. Everything else is here once.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar, overload

from syncline.base import document, memory
from syncline.base.document import Origin
from syncline.base.errors import InputError, Problem, shown
from syncline.base.quantities import QuantityError, size
from syncline.core.cancelling import Cancellation
from syncline.experiment import merge
from syncline.experiment.merge import Override
from syncline.sections import profiles

if TYPE_CHECKING:
    from syncline.base.document import Node, Plain
    from syncline.experiment.load import Study

T = TypeVar("T")
P = ParamSpec("P")

MOST_LISTED: Final = 1 << 16
"""Numbers of a list: as many as NPUs that have files of their own."""
MAX_THREADS: Final = 1024
MAX_SEED: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Spelling:
    """How what is asked for is written, and where."""

    place: str
    """What stands in problems in place of a file."""
    before: str = ""
    """What stands before every name."""
    joint: str = "_"
    """What joins the words of a name."""
    label_before: str = "--"
    """What stands before a name that takes the place of a file."""

    positional: tuple[str, ...] = ()
    """Arguments that stand without their name, which is then written in capitals."""
    called: tuple[tuple[str, str], ...] = ()
    """Names of arguments of commands, each with the one that it has here if that is another."""

    def name(self, argument: str) -> str:
        """The name of an argument, such as `memory_limit`, as it is written."""
        argument = dict(self.called).get(argument, argument)
        if argument in self.positional:
            return argument.upper()
        return self.before + argument.replace("_", self.joint)

    def label(self, argument: str) -> str:
        """What stands in place of a file for fields that an argument sets (also in `schema.effect.BROUGHT`)."""
        return self.label_before + self.name(argument).removeprefix(self.before)

    def problem(self, argument: str, value: object, message: str, accepted: str | None = None) -> Problem:
        """A problem with the value of an argument."""
        return Problem(self.place, None, self.name(argument), shown(value), message, accepted)


FLAGS: Final = Spelling("command line", "--", "-", positional=("kind",))
ARGUMENTS: Final = Spelling("arguments", label_before="argument ")
FLAG: Final = re.compile(r"(?<![\w-])--([a-z][a-z-]*)")
"""A flag in a sentence."""


def respelled(problem: Problem, spelling: Spelling) -> Problem:
    """A problem with a flag as one with what the flag is called in `spelling`; any other problem as it is."""
    if problem.file != FLAGS.place or spelling is FLAGS:
        return problem

    def words(text: str | None) -> str | None:
        return text and FLAG.sub(lambda flag: spelling.name(flag[1].replace("-", "_")), text)

    name = problem.field.removeprefix(FLAGS.before).replace(FLAGS.joint, "_")
    field = spelling.name(name.lower() if name.isupper() else name)
    message = words(problem.message) or ""
    return Problem(spelling.place, None, field, problem.value, message, words(problem.accepted))


@contextmanager
def spelled(spelling: Spelling) -> Iterator[None]:
    """What is wrong with flags of a command line is said in the words of `spelling`."""
    try:
        yield
    except InputError as error:
        raise InputError(respelled(problem, spelling) for problem in error.problems) from None


def collected(problems: list[Problem], read: Callable[[], T]) -> T | None:
    """What `read` gives, or nothing, its problems added to `problems`."""
    try:
        return read()
    except InputError as error:
        problems += error.problems
        return None


@dataclass(frozen=True, slots=True)
class Settings:
    """What is asked for beside an experiment."""

    overrides: tuple[Override, ...] = ()
    """These change the experiment and can be displaced by its variants."""
    forced: tuple[Override, ...] = ()
    """These change every variant."""
    seed: int = 0
    threads: int | None = None
    """Simulations that run at once; one per processor if not given."""
    memory_limit: int | None = None
    """Bytes that a simulation may take, if that is not for the process to say."""
    cancel: Cancellation | None = None
    """What ends simulations before they are finished."""
    problems: tuple[Problem, ...] = ()
    """What is wrong with all this; it is raised with what is wrong with the experiment."""

    def loaded(self, read: Callable[[Sequence[Override], Sequence[Override]], Study]) -> Study:
        """The study that `read` makes of overrides and forced ones, with this seed and limit of memory.

        Raises one [`InputError`] with its problems and those of the settings.
        """
        found = [*self.problems, *self.given_twice()]
        try:
            study = read(self.overrides, self._forced())
        except InputError as error:
            raise InputError([*found, *error.problems]) from None
        if found:
            raise InputError(found)
        return study.seeded(self.seed).limited(self.memory_limit).ended_by(self.cancel)

    def given_twice(self) -> list[Problem]:
        """What is wrong where fields are set and have an argument of their own that is given as well."""
        return list(merge.given_twice([*self.overrides, *(of for of in self.forced if not _is_brought(of))]))

    def _forced(self) -> list[Override]:
        """What changes every variant: of what an endpoint's name brings with it, that which is set is as it is set."""
        given = {override.path: override for override in self.overrides if override.path[:1] == ("endpoint",)}
        return [given.get(of.path, of) if _is_brought(of) else of for of in self.forced]


def _is_brought(override: Override) -> bool:
    """Whether this is a parameter that comes with the name of an endpoint, and not what was asked for itself."""
    return override.path[0] == "endpoint" and override.path != ("endpoint", "kind")


def of_program(
    *,
    changes: Mapping[str, object] | None = None,
    baseline: object = None,
    seed: object = 0,
    threads: object = None,
    memory_limit: object = None,
    forced: Mapping[str, object] | None = None,
    cancel: object = None,
) -> Settings:
    """Settings from the arguments of a function, whatever they are: what is wrong with them is among their problems.

    `changes` are fields by their paths; `forced` are those arguments of [`forced_overrides`] that are given.
    """
    problems = common_problems(ARGUMENTS, seed=seed, threads=threads)
    overrides, wrong = changed_fields(changes)
    problems += wrong
    if baseline is not None:
        try:
            overrides.append(baseline_override(baseline, ARGUMENTS))
        except InputError as error:
            problems += error.problems
    limit = None
    if memory_limit is not None:
        limit, wrong = _bytes(memory_limit)
        problems += wrong
    forced = dict(forced or {})
    try:
        forcing = forced_overrides(ARGUMENTS, **{**forced, "chunk": sized(forced.get("chunk"))})
    except InputError as error:
        forcing = []
        problems += error.problems
    token, wrong = cancellation(cancel)
    problems += wrong
    good_seed = seed if isinstance(seed, int) and _within(seed, 0, MAX_SEED) else 0
    good_threads = threads if isinstance(threads, int) and _within(threads, 1, MAX_THREADS) else None
    return Settings(tuple(overrides), tuple(forcing), good_seed, good_threads, limit, token, tuple(problems))


def cancellation(given: object) -> tuple[Cancellation | None, list[Problem]]:
    """What ends a function before it is finished, and what is wrong with it."""
    if given is None or isinstance(given, Cancellation):
        return given, []
    message = "this cannot be cancelled by others"
    return None, [ARGUMENTS.problem("cancel", type(given).__name__, message, "a syncline.Cancellation()")]


def common_problems(spelling: Spelling, *, seed: object = 0, threads: object = None) -> list[Problem]:
    """What is wrong with arguments that most functions have."""
    found: list[Problem] = []
    if threads is not None and not _within(threads, 1, MAX_THREADS):
        found.append(spelling.problem("threads", threads, _of_number(threads), f"1 to {MAX_THREADS}"))
    if not _within(seed, 0, MAX_SEED):
        found.append(spelling.problem("seed", seed, _of_number(seed), f"0 to {MAX_SEED}"))
    return found


def _within(value: object, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _of_number(value: object) -> str:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return "this is out of range" if is_number else "this is not a whole number"


def _bytes(given: object) -> tuple[int | None, list[Problem]]:
    try:
        number = _whole(given)
        found = size(str(given)) if number is None else number
    except QuantityError as error:
        return None, [ARGUMENTS.problem("memory_limit", given, error.message, error.accepted)]
    if found < memory.LEAST:
        message = "this is less than any simulation needs"
        return None, [ARGUMENTS.problem("memory_limit", given, message, memory.ACCEPTED)]
    return found, []


def changed_fields(changes: object) -> tuple[list[Override], list[Problem]]:
    """The overrides of a mapping of paths to values, `{"training.iterations": 4}`, and what is wrong with it."""
    found: list[Override] = []
    problems: list[Problem] = []
    if changes is None:
        return found, problems
    accepted = 'paths and values, such as {"training.iterations": 4}'
    if not isinstance(changes, Mapping):
        return found, [ARGUMENTS.problem("set", type(changes).__name__, "this is not a mapping", accepted)]
    for path, value in changes.items():
        parts = tuple(part.strip() for part in path.split(".")) if isinstance(path, str) else ()
        if not all(parts) or not parts:
            problems.append(ARGUMENTS.problem("set", path, "this is not the path of a field", accepted))
            continue
        try:
            found.append(
                Override(parts, document.of_value(value, Origin(ARGUMENTS.label("set"), None, ".".join(parts))))
            )
        except InputError as error:
            problems += error.problems
    return found, problems


def baseline_override(name: object, spelling: Spelling) -> Override:
    """What naming a baseline changes of an experiment. Raises [`InputError`] for what no file could say."""
    return Override(("baseline",), _argument(name, "baseline", spelling))


def forced_overrides(
    spelling: Spelling,
    *,
    chunk: object = None,
    inflight: object = None,
    endpoint: object = None,
    algorithm: object = None,
    backend: object = None,
    fold: object = None,
    padding: object = None,
    pcap: object = None,
) -> list[Override]:
    """What holds for every variant, whatever the experiment says. Raises [`InputError`] for what no file could say."""

    def override(path: str, value: object, argument: str) -> Override:
        return Override(tuple(path.split(".")), document.of_value(value, Origin(spelling.label(argument), None, path)))

    found: list[Override] = []
    if endpoint is not None:
        given = named_endpoint(endpoint) if isinstance(endpoint, str) else {"kind": endpoint}
        found += [override(f"endpoint.{key}", value, "endpoint") for key, value in given.items()]
    fields = {
        "backend": ("network.backend", backend),
        "algorithm": ("collective.algorithm", algorithm),
        "chunk": ("collective.chunk", chunk),
        "inflight": ("collective.inflight", inflight),
        "padding": ("collective.padding", padding),
        "fold": ("fold", fold),
    }
    found += [override(path, value, name) for name, (path, value) in fields.items() if value is not None]
    if pcap:
        found.append(Override(("network", "capture"), _argument(pcap, "pcap", spelling)))
    return found


def _argument(value: object, argument: str, spelling: Spelling) -> Node:
    """The value of an argument, all of whose problems are said of the argument."""
    node = document.of_value(value, Origin(spelling.place, None, spelling.name(argument)))
    if isinstance(node, document.Sequence):
        for item in node.items:
            item.origin = node.origin
    return node


def named_endpoint(name: str) -> dict[str, Plain]:
    """The parameters of an endpoint that is given by name; the schema refuses names that it does not know."""
    return dict(profiles.ENDPOINTS.get(name, {"kind": name}))


def plain_arguments(function: Callable[P, T]) -> Callable[P, T]:
    """A function of programs whose arguments may hold numbers and arrays of NumPy, as numbers and lists of Python."""

    @functools.wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> T:
        positional: Any = (_plain(value) for value in args)
        named: Any = {name: _plain(value) for name, value in kwargs.items()}
        return function(*positional, **named)

    return called


def _plain(value: object, levels: int = 2) -> object:
    """The value of an argument without NumPy; lists within lists, such as groups, are the deepest that one has."""
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, list | tuple) and levels:
        items = [_plain(item, levels - 1) for item in value]
        return items if isinstance(value, list) else tuple(items)
    return document.plain_value(value)


def not_text(**given: object) -> list[Problem]:
    """What is wrong with arguments that have to be text, whatever a program gives."""
    return [
        ARGUMENTS.problem(name, type(value).__name__, "this is not text")
        for name, value in given.items()
        if not isinstance(value, str | None)
    ]


def not_flags(**given: object) -> list[Problem]:
    """What is wrong with arguments that have to be true or false."""
    return [
        ARGUMENTS.problem(name, value, "this is neither true nor false", "True, False")
        for name, value in given.items()
        if not isinstance(value, bool)
    ]


def names(problems: list[Problem], argument: str, given: object) -> list[str]:
    """Names that are given, one or several; what is wrong with them is added to `problems`."""
    several = [given] if isinstance(given, str) else given
    if not isinstance(several, Sequence) or not all(isinstance(name, str) for name in several):
        problems.append(ARGUMENTS.problem(argument, given, "these are no names", "a name, or a list of names"))
        return []
    return list(several)


@overload
def sized(given: str | int) -> str: ...


@overload
def sized(given: str | int | None) -> str | None: ...


@overload
def sized(given: object) -> object: ...


def sized(given: Any) -> Any:
    """A size as a file has it: a whole number is one of bytes."""
    number = _whole(given)
    return given if number is None else f"{number}B"


def _whole(given: object) -> int | None:
    """A whole number, also one that arithmetic has left as a float (`2**20 * 1.5`)."""
    if isinstance(given, float) and given.is_integer():
        return int(given)
    return given if isinstance(given, int) and not isinstance(given, bool) else None


def no_text(**given: object) -> list[Problem]:
    """The same of arguments that have to be given."""
    missing = [ARGUMENTS.problem(name, None, "this is not text") for name, value in given.items() if value is None]
    return [*missing, *not_text(**given)]


@dataclass(frozen=True, slots=True)
class Listed:
    """What a list of numbers is of."""

    message: str
    """What is said of anything else."""
    accepted: str
    of_bytes: bool = False
    """Whether numbers are bytes; text has a unit."""
    alone: bool = False
    """Whether one number stands for the list of it."""


GPUS: Final = Listed("these are no GPUs", 'numbers of GPUs, [0, 1, 4] or "0-1,4"')


def listed(problems: list[Problem], argument: str, given: object, of: Listed) -> str | None:
    """A list of numbers as the text that a command reads, `0,1,4`; what is wrong with it is added to `problems`."""
    if given is None or isinstance(given, str):
        return given
    several = [given] if of.alone and isinstance(given, int | float) else given
    if isinstance(several, Iterable) and not isinstance(several, bytes | Mapping):
        items = list(islice(several, MOST_LISTED + 1))
        items = [sized(item) for item in items] if of.of_bytes else items
        if len(items) <= MOST_LISTED and all(isinstance(i, int | str) and not isinstance(i, bool) for i in items):
            return ",".join(map(str, items))
    shown_as = given if isinstance(given, int | float) else type(given).__name__
    problems.append(ARGUMENTS.problem(argument, shown_as, of.message, of.accepted))
    return None


def elsewhere(error: InputError, place: str, field: str) -> InputError:
    """The same problems, said of another argument."""
    return InputError(replace(problem, file=place, field=field) for problem in error.problems)
