"""Profiles of PyTorch as graphs: compute and the host as measured, collectives simulated.

*Iterations.* Of a profile whose iterations are marked, the complete ones are taken (`kineto_steps`), and otherwise all
of it.
*Ranks.* The clocks of ranks differ: each rank begins with its first event that is taken (`kineto_rank`). Ranks without
a profile are taken as equal to the next one below that has a profile, with process groups moved along.
*Collectives.* Kernels of NCCL are replaced by what their arguments say (`kineto_communication`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from syncline.base import inputs
from syncline.base.errors import InputError, Problem, shown
from syncline.base.text_units import percent
from syncline.importers import chakra, kineto_format, kineto_rank, kineto_steps, output, ranks, similar
from syncline.importers.assemble import assemble
from syncline.importers.kineto_communication import Notes
from syncline.importers.kineto_format import ON_DEVICE, Profile
from syncline.importers.kineto_steps import Step, Window
from syncline.importers.output import Asked, Imported
from syncline.importers.traces import Barrier, Collective, Item, Message, Trace, Work

SUFFIXES: Final = (".json", ".json.gz", ".pt.trace.json", ".pt.trace.json.gz")
CLOCKS: Final = "every rank begins with its first event: clocks are not compared"
UNMATCHED: Final = "the steps of ranks do not match each other, so that all of the profiles is taken"


def imported(arguments: Sequence[str], asked: Asked) -> Imported:
    """Profiles as a graph, with an experiment. Raises [`InputError`]."""
    files = ranks.of(arguments, SUFFIXES)
    profiles = _profiles(files)
    count = _job_size(profiles, asked)
    steps = [kineto_steps.complete(profile) for profile in profiles]
    numbers = kineto_steps.in_common(steps)
    if numbers:
        try:
            windows = [kineto_steps.window_of([of[number] for number in numbers]) for of in steps]
            made = _made(files.name or "profile", profiles, windows, count, asked)
            made.assumptions += _taken(profiles, steps, numbers)
            return made
        except InputError:
            pass  # errors that are not for the steps come again with all of the profiles
    made = _made(files.name or "profile", profiles, [_whole(profile) for profile in profiles], count, asked)
    made.assumptions += [UNMATCHED] if numbers else []
    return made


def _profiles(files: ranks.Files) -> list[Profile]:
    """The profiles, by rank. Raises [`InputError`] with all that is wrong with files."""
    profiles: dict[int, Profile] = {}
    problems: list[Problem] = []
    for path in files.by_npu.values():
        try:
            profile = kineto_format.read(
                inputs.read_bytes(inputs.given(path), str(path), kineto_format.MAX_BYTES), str(path)
            )
        except InputError as error:
            problems += error.problems
            continue
        if profile.rank in profiles:
            message = f"rank {profile.rank} has another profile: {profiles[profile.rank].file}"
            problems.append(Problem(str(path), None, "distributedInfo.rank", None, message, "a profile for each rank"))
        if not any(event.category in ON_DEVICE for event in profile.events):
            message = "there is no event of a GPU (kernel, gpu_memcpy, gpu_memset), as in profiles of a CPU alone"
            accepted = "a profile with kernels: of a run on GPUs, with ProfilerActivity.CPU and ProfilerActivity.CUDA"
            problems.append(Problem(str(path), None, "traceEvents", None, message, accepted))
        profiles[profile.rank] = profile
    if problems:
        raise InputError(problems)
    return [profile for _, profile in sorted(profiles.items())]


def _whole(profile: Profile) -> Window:
    return kineto_steps.whole(profile, kineto_rank.calls_of(profile))


def _made(name: str, profiles: Sequence[Profile], windows: Sequence[Window], count: int, asked: Asked) -> Imported:
    """The graph of a part of each profile. Raises [`InputError`]."""
    notes = Notes()
    traces = [kineto_rank.trace_of(*each, notes) for each in zip(profiles, windows, strict=True)]
    assumptions: list[str] = []
    traces += _without_profile(traces, count, assumptions)
    _even_sizes(traces, notes)
    groups = {name: list(members) for trace in traces for name, members in trace.groups.items()}
    found = assemble(
        sorted(traces, key=lambda trace: trace.npu), groups, npus=count, dims=similar.asked_dimensions(asked)
    )
    topology = asked.topology
    if asked.like is None:
        topology = output.checked_topology(topology, count, assumptions)
    if windows[0].steps is not None:
        found.graph["steps"] = windows[0].steps
    made = Imported("kineto", name, found.graph, topology=topology)
    made.sections = output.sections_of_default(asked.backend)
    made.assumptions = [*assumptions, *notes.assumptions(), CLOCKS]
    made.facts = chakra.facts(found)
    made.traces = found.traces
    made.warnings = _unnamed(found.traces, notes.unnamed)
    return made


def _unnamed(traces: Sequence[Trace], kernels: Counter[int]) -> list[str]:
    """Warning for kernels of NCCL of which nothing but the time is known, by rank."""
    if not kernels:
        return []
    records = {trace.npu: trace.record for trace in traces if trace.npu in kernels and trace.record is not None}
    rank, record = max(records.items(), key=lambda entry: entry[1].exposed)
    on_ranks = output.npus_text([*kernels])
    return [
        f"{kernels.total()} kernels of NCCL do not say which collective they are (rank {on_ranks}): "
        "they take the recorded time on any network, and runs count them as background compute, not as communication; "
        f"in the record, exposed communication is {percent(record.exposed / max(1, record.time))} of the time of rank "
        f"{rank}"
    ]


def _taken(profiles: Sequence[Profile], steps: Sequence[Mapping[int, Step]], numbers: Sequence[int]) -> list[str]:
    """States which iterations are taken, and what is left out."""
    taken = sum(len(of[number].work) for of in steps for number in numbers)
    every = sum(event.category in ON_DEVICE for profile in profiles for event in profile.events)
    row = f"#{numbers[0]}" if len(numbers) == 1 else f"#{numbers[0]} to #{numbers[-1]}"
    left_out = f"; {every - taken} of {every} events of GPUs are outside, and are left out" if taken < every else ""
    return [f"the complete iterations (ProfilerStep{row}) are taken, by the clock of the GPU{left_out}"]


def _job_size(profiles: Sequence[Profile], asked: Asked) -> int:
    sizes = {profile.ranks for profile in profiles}
    if len(sizes) > 1:
        other = next(p for p in profiles if p.ranks != profiles[0].ranks)
        message = f"a job of {other.ranks} ranks, and {profiles[0].file} is of one of {profiles[0].ranks}"
        raise InputError(
            [Problem(other.file, None, "distributedInfo.world_size", None, message, "profiles of one job")]
        )
    (count,) = sizes
    if asked.npus is not None and asked.npus != count:
        message = f"the profiles are of a job of {count} ranks"
        raise InputError([Problem("command line", None, "--npus", str(asked.npus), message, str(count))])
    return count


def _without_profile(traces: Sequence[Trace], count: int, assumptions: list[str]) -> list[Trace]:
    """Traces of ranks that have no profile: those of the next rank below that has one."""
    known = {trace.npu: trace for trace in traces}
    missing = [rank for rank in range(count) if rank not in known]
    copies: list[Trace] = []
    by_model: dict[int, list[int]] = defaultdict(list)
    for rank in missing:
        model = known[max((r for r in known if r <= rank), default=min(known))]
        by_model[model.npu].append(rank)
        copies.append(_moved(model, rank, count))
    for npu, followers in by_model.items():
        assumptions.append(f"rank {output.npus_text(followers)}: no profile, taken as equal to rank {npu}")
    return copies


def _moved(model: Trace, rank: int, count: int) -> Trace:
    """The trace of a rank as that of another one: process groups and peers are moved along."""
    names: dict[str, str] = {}
    groups: dict[str, Sequence[int]] = {}
    for name, members in model.groups.items():
        stride = members[1] - members[0] if len(members) > 1 else 1
        size = len(members)

        def at(npu: int, stride: int = stride, size: int = size) -> list[int]:
            first = npu - npu // stride % size * stride
            return [first + place * stride for place in range(size)]

        regular = stride > 0 and at(model.npu) == list(members) and count % (stride * size) == 0
        if not regular:
            message = f"NPU {rank} has no profile, and process group {shown(name)} of rank {model.npu} has no pattern"
            raise InputError([Problem(model.file, None, "", None, message, "profiles of all ranks")])
        moved = at(rank)
        names[name] = ",".join(str(member) for member in moved)
        groups[names[name]] = moved
    items = [replace(item, work=_moved_work(item.work, names, rank - model.npu, count)) for item in model.items]
    return Trace(rank, model.file, items, groups, model.streams)


def _moved_work(work: Work, names: dict[str, str], by: int, count: int) -> Work:
    if isinstance(work, Collective | Barrier):
        return replace(work, group=names.get(work.group, work.group))
    if isinstance(work, Message):
        return replace(work, peer=(work.peer + by) % count)
    return work


def _even_sizes(traces: Sequence[Trace], notes: Notes) -> None:
    """Gives all members of a communicator the largest size of an all-to-all whose ranks send unequally much."""
    calls: dict[tuple[str, int], list[Item]] = defaultdict(list)
    for trace in traces:
        counts: Counter[str] = Counter()
        for item in trace.items:
            if isinstance(item.work, Collective):
                calls[item.work.group, counts[item.work.group]].append(item)
                counts[item.work.group] += 1
    for items in calls.values():
        works = [item.work for item in items if isinstance(item.work, Collective)]
        sizes = {work.size for work in works}
        if len(sizes) > 1 and all(work.kind == "all-to-all" for work in works):
            notes.add("an all-to-all of unequal sizes has the largest of them on all ranks")
            for item, work in zip(items, works, strict=True):
                item.work = replace(work, size=max(sizes))
