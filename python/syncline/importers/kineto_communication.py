"""Kernels of NCCL as collectives, barriers and messages, by what their arguments say.

The arguments are those of the kernel or, where these do not say which collective it is, those of the
`record_param_comms` of the same External id.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from syncline.base.errors import InputError, Problem, shown
from syncline.importers import kineto_format
from syncline.importers.kineto_format import MOST_RANKS, PARAMS, Event, Profile
from syncline.importers.traces import WORLD, Barrier, Collective, Message, Time, Work

KINDS: Final = {
    **dict.fromkeys(("allreduce", "all_reduce", "allreduce_coalesced"), ("all-reduce", "In")),
    **dict.fromkeys(
        ("allgather", "all_gather", "_allgather_base", "allgather_into_tensor_coalesced", "allgather_coalesced"),
        ("all-gather", "Out"),
    ),
    **dict.fromkeys(
        ("reduce_scatter", "reducescatter", "_reduce_scatter_base", "reduce_scatter_tensor_coalesced"),
        ("reduce-scatter", "In"),
    ),
    **dict.fromkeys(("alltoall", "all_to_all", "all_to_allv", "alltoall_base"), ("all-to-all", "In")),
    **dict.fromkeys(("broadcast", "_broadcast_oop"), ("broadcast", "In")),
    **dict.fromkeys(("reduce", "_reduce_oop"), ("reduce", "In")),
    "gather": ("gather", "Out"),
    "scatter": ("scatter", "In"),
}
"""Collectives by their names in profiles, and which message is the full vector."""
ROOTED: Final = ("broadcast", "reduce", "gather", "scatter")
GROUP_SIZE: Final = "Group size"


@dataclass(slots=True)
class Notes:
    """What was assumed or has to be warned of, and of how many events."""

    assumed: Counter[str] = field(default_factory=Counter)
    unnamed: Counter[int] = field(default_factory=Counter)
    """By rank, kernels of NCCL that do not say which collective they are."""

    def add(self, text: str) -> None:
        """Counts one more event of which something was assumed."""
        self.assumed[text] += 1

    def assumptions(self) -> list[str]:
        """All that was assumed."""
        return [f"{text} ({count} times)" for text, count in self.assumed.items()]


def arguments_of(event: Event, params: Mapping[int, Event]) -> Mapping[str, Any]:
    """The arguments that say what a kernel of NCCL does."""
    if "Collective name" in event.args or event.external is None or event.external not in params:
        return event.args
    return params[event.external].args


def params_of(profile: Profile) -> dict[int, Event]:
    """The `record_param_comms` of a profile, by External id."""
    return {e.external: e for e in profile.events if e.name == PARAMS and e.external is not None}


@dataclass(slots=True)
class Communication:
    """What the kernels of NCCL of a rank do."""

    profile: Profile
    notes: Notes
    groups: dict[str, list[int]] = field(default_factory=dict)
    """The process groups that were named, with their ranks."""
    _params: dict[int, Event] = field(init=False)

    def __post_init__(self) -> None:
        self._params = params_of(self.profile)

    def work(self, event: Event) -> Work:
        """What a kernel does; it takes the measured time if it does not say that. Raises [`InputError`]."""
        measured = Time(event.end - event.start)
        args = arguments_of(event, self._params)
        name = args.get("Collective name")
        if not isinstance(name, str):
            self.notes.unnamed[self.profile.rank] += 1
            return measured
        if name.lower() in ("send", "recv"):
            return self._message(event, args, sends=name.lower() == "send")
        members = self._members(event, args)
        group = WORLD if members == list(range(self.profile.ranks)) else ",".join(str(rank) for rank in members)
        if group != WORLD:
            self.groups[group] = members
        if name.lower() == "barrier":
            return Barrier(group)
        if name.lower() not in KINDS:
            self.notes.add(f"a collective called {shown(name)} takes the measured time")
            self.notes.unnamed[self.profile.rank] += 1
            return measured
        kind, which = KINDS[name.lower()]
        size = kineto_format.bytes_of(args, which)
        if size is None:
            message = f"it does not say its size ({which} msg nelems, dtype)"
            raise self.profile.refuse(event, message, "a number of elements and a data type of PyTorch")
        root = args.get("Root rank", args.get("Src Rank", 0))
        return Collective(group, kind, size, members.index(root) if kind in ROOTED and root in members else 0)

    def _members(self, event: Event, args: Mapping[str, Any]) -> list[int]:
        self._check_group_size(event, args)
        members = kineto_format.ranks_of(args)
        name = args.get("Process Group Name")
        if members is None and isinstance(name, str):
            members = self.profile.groups.get(name)
        if members is None and args.get(GROUP_SIZE) in (None, self.profile.ranks):
            members = list(range(self.profile.ranks))
        if members is None:
            message = f"nobody says who is in process group {shown(name)}"
            raise self.profile.refuse(event, message, "Process Group Ranks, or ranks in distributedInfo.pg_config")
        ranks = self.profile.ranks
        if self.profile.rank not in members or not all(0 <= rank < ranks for rank in members):
            message = f"rank {self.profile.rank} is not in its process group"
            raise self.profile.refuse(event, message, f"a process group with it, of ranks 0 to {ranks - 1}")
        if args.get(GROUP_SIZE) not in (None, len(members)):
            self.notes.add("a process group has the ranks that are listed, though its Group size is another")
        return members

    def _check_group_size(self, event: Event, args: Mapping[str, Any]) -> None:
        size = args.get(GROUP_SIZE)
        if size is not None and (type(size) is not int or not 1 <= size <= MOST_RANKS):
            place = f"{event.place}.args.{GROUP_SIZE}"
            accepted = f"the ranks of the process group, 1 to {MOST_RANKS}"
            message = "this is no number of ranks"
            raise InputError([Problem(self.profile.file, None, place, shown(size), message, accepted)])

    def _message(self, event: Event, args: Mapping[str, Any], *, sends: bool) -> Work:
        peer = args.get("Dst Rank" if sends else "Src Rank")
        size = kineto_format.bytes_of(args, "In" if sends else "Out")
        if type(peer) is not int or size is None:
            raise self.profile.refuse(event, "it does not say to or from whom, or how much", "Src Rank or Dst Rank")
        return Message(sends, peer, size, 0)
