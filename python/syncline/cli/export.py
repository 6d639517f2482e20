"""`syncline export`: an algorithm written down, as a plan, as MSCCL XML or as an execution plan of MSCCL++."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from syncline.cli import options, single

if TYPE_CHECKING:
    from syncline.errors import Problem
    from syncline.schema.load import Variant

PLAN, MSCCL, MSCCLPP = FORMATS = ("plan", "msccl-xml", "mscclpp-json")
NO_SIZE = "1MiB"
"""The size of what is exported where nothing depends on it."""
IN_SWITCH = "in-switch"
THREADS = 256
"""What `nthreads` of MSCCL XML says: threads of a thread block; they do not matter here."""
MOST_INSTANCES = 32
"""As many as MSCCL takes channels."""
MOST_LETTERS = 63
"""Of a name in MSCCL XML."""
ONE_WAY = "a plan says nothing of lanes: it is ring-unidirectional if it runs with --set collective.lanes=one"
_FORMAL = {PLAN: "syncline-plan"}
"""What documents call formats that they do not call as `--format` does."""
_RANKS = re.compile(r"[1-9][0-9]{0,6}(x[1-9][0-9]{0,6})*", re.ASCII)


def export(
    kind: single.Kind,
    algorithm: Annotated[
        str,
        typer.Option(metavar="NAME", help="The algorithm, as for syncline collective; auto needs --size."),
    ],
    ranks: Annotated[
        str | None,
        typer.Option(
            metavar="N|NxM",
            help="In place of a fabric: so many ranks on a Switch(N), for rings on a Ring(N); NxM is a grid on "
            "Ring(N)_Ring(M), for rings and compositions.",
        ),
    ] = None,
    topology: single.Topology = None,
    machine: single.Machine = None,
    topology_file: single.TopologyFile = None,
    gpus: single.Gpus = None,
    group: single.Group = None,
    root: single.Root = None,
    size: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="The size for which auto, and the number of slices, are chosen."),
    ] = None,
    format_: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="plan|msccl-xml|mscclpp-json",
            help="JSON of syncline-plan, MSCCL XML, or the JSON of an execution plan of MSCCL++.",
        ),
    ] = PLAN,
    instances: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="For MSCCL and MSCCL++: how many copies of the algorithm share the vector; 1 by default.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="FILE", help="The file to write; otherwise standard output.")
    ] = None,
    endpoint: options.Endpoint = None,
    backend: options.Backend = None,
    set_: options.Set = None,
    json: options.AsJson = False,
    seed: options.Seed = 0,
    _memory_limit: options.MemoryLimit = None,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> int:
    """Write an algorithm down, as a plan, as MSCCL XML or as an execution plan of MSCCL++; --plan takes all of them.

    \b
      syncline export all-reduce --algorithm ring --ranks 8 --format msccl-xml -o ring8.xml
      syncline export all-reduce --algorithm direct --ranks 8 --format mscclpp-json -o direct8.json
      syncline export all-reduce --algorithm six-phase --ranks 4x8 -o six-phase.json
      syncline export all-gather --algorithm direct --topology "Torus(4,4)" > direct.json
      syncline export broadcast --algorithm double-binary-tree --machine dgx1v --root 2 --size 64MB
      syncline export reduce --algorithm double-binary-tree --ranks 8 --set collective.slices=16

    With a fabric, the plan is exactly what runs there. Algorithms may depend on the fabric: direct ones order their
    messages by its distances, and compositions have an algorithm for each of its dimensions. With --ranks, the plan
    is that of a fabric that says nothing of itself.

    A plan holds the slices of trees and chains, so these need --size, for which the fastest number is chosen, or
    --set collective.slices=N. What goes through switches needs --size, too, and so does auto, which stands for the
    fastest algorithm. A plan says nothing of lanes: with --set collective.lanes=one, that of a ring goes one way.

    MSCCL XML has all steps of all ranks. Each lane of a ring has channels of its own and an equal part of the vector;
    with --set collective.lanes=one there is one lane. The format has limits: what does not fit is refused.

    An execution plan of MSCCL++ (protocol Simple, memory channels) does the same steps one-sided: it puts, signals and
    waits. Thread blocks have as many peers as their thread, and long threads become several thread blocks.
    """
    began = time.monotonic()
    asked = _Asked(algorithm, ranks, size, format_, instances)
    fabric = topology or machine or topology_file
    problems = [*options.common_problems(seed=seed), *asked.problems(fabric)]
    flags = single.Flags(
        kind=kind,
        size=size or NO_SIZE,
        topology=topology if ranks is None or fabric is not None else asked.fabric(),
        machine=machine,
        topology_file=topology_file,
        gpus=gpus,
        groups=group or [],
        root=root,
        endpoint=endpoint or ("switch-offload" if algorithm == IN_SWITCH else None),
        algorithm=algorithm,
        backend=backend,
        fabrics=f"--ranks 8, {single.FABRICS}",
    )
    study, _ = single.load(flags, problems, set_)
    as_schedule = format_ != PLAN
    warnings = list(study.warnings)
    if algorithm == "ring-unidirectional" and not as_schedule:
        warnings.append(ONE_WAY)
    variant = options.settled(study.seeded(seed)).variants[0]
    variant, assumed = _sliced(variant, asked)

    from syncline import rundir
    from syncline.errors import command_line
    from syncline.schedules import msccl_write, mscclpp, plan_form
    from syncline.schedules.mscclpp import write as mscclpp_write

    form: Any = written(variant, instances=(instances or 1) if as_schedule else None)
    form["name"] = _name(variant)[:MOST_LETTERS]
    if format_ == MSCCL and form.get("threads") is None:
        form["threads"] = THREADS
        assumed.append(f"nthreads = {THREADS} (default)")
    if format_ == MSCCLPP:
        assumed.append(f"num_threads_per_block = {mscclpp_write.THREADS} (default)")
        if form["collective"] not in mscclpp.NAMED:
            warnings.append(f"MSCCL++ has no name for {form['collective']}: name the plan to its executor yourself")
    writers: dict[str, Callable[[Any], str]] = {
        PLAN: plan_form.dumps,
        MSCCL: msccl_write.write,
        MSCCLPP: mscclpp_write.write,
    }
    text = writers[format_](form)
    if out is not None:
        try:
            rundir.write(out, text)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise command_line("--out", str(out), f"this cannot be written: {reason}") from None
    if json:
        what = {PLAN: {"plan": form}, MSCCL: {"xml": text}, MSCCLPP: {"text": text}}[format_]
        _print_document(variant, warnings, assumed, out, {"format": _FORMAL.get(format_, format_), **what}, began)
    elif out is None:
        sys.stdout.write(text)
    if quiet or json:
        return 0
    for warning in warnings:
        print(f"warning: {warning}", file=sys.stderr)
    for assumption in assumed if verbose else ():
        print(f"assumed: {assumption}", file=sys.stderr)
    if variant.choice is not None:
        print(f"auto chose {variant.choice.chosen}: {variant.choice.because}", file=sys.stderr)
    if out is not None:
        print(f"{format_}: {out}", file=sys.stderr)
    return 0


@dataclass(frozen=True, slots=True)
class _Asked:
    """What the command line says beside the fabric."""

    algorithm: str
    ranks: str | None
    size: str | None
    format: str
    instances: int | None

    @property
    def grid(self) -> list[str]:
        """The ranks along each dimension."""
        return (self.ranks or "").split("x")

    @property
    def is_of_dimensions(self) -> bool:
        """Whether the algorithm goes along the dimensions of a grid."""
        from syncline.schema.programs import COMPOSITIONS

        return self.algorithm.startswith("ring") or self.algorithm in (IN_SWITCH, *COMPOSITIONS)

    def fabric(self) -> str:
        """The fabric that `--ranks` stands for; one of one rank where it stands for none, which is said."""
        if _RANKS.fullmatch(self.ranks or "") is None:
            return "Ring(1)"
        rings = self.algorithm.startswith("ring") or (len(self.grid) > 1 and self.algorithm != IN_SWITCH)
        return "_".join(f"{'Ring' if rings else 'Switch'}({size})" for size in self.grid)

    def problems(self, fabric: str | None) -> list[Problem]:
        """What is wrong with it."""
        from syncline.errors import command_line, did_you_mean, one_of

        found: list[Problem] = []

        def refuse(flag: str, value: str | None, message: str, accepted: str) -> None:
            found.extend(command_line(flag, value, message, accepted).problems)

        if self.format not in FORMATS:
            hint = did_you_mean(self.format, FORMATS)
            refuse("--format", self.format, f"this format is not known{hint}", one_of(FORMATS))
        if self.instances is not None and not 1 <= self.instances <= MOST_INSTANCES:
            refuse("--instances", str(self.instances), "this is no number of instances", f"1 to {MOST_INSTANCES}")
        elif self.instances is not None and self.format == PLAN:
            accepted = f"--format {MSCCL} or {MSCCLPP} with it"
            refuse("--instances", str(self.instances), "a plan has no instances", accepted)
        if self.algorithm == "auto" and self.size is None:
            refuse("--algorithm", "auto", "which algorithm is the fastest depends on the size", "--size SIZE with it")
        if self.ranks is None:
            return found
        if fabric is not None:
            refuse("--ranks", self.ranks, "the fabric is given twice", "--ranks, or a fabric")
        elif _RANKS.fullmatch(self.ranks) is None:
            refuse("--ranks", self.ranks, "these are no ranks", "a number, or a grid such as 4x8")
        elif len(self.grid) > 1 and not self.is_of_dimensions:
            message = f"{self.algorithm} takes ranks as a line, whatever their grid"
            refuse("--ranks", self.ranks, message, "the number of ranks")
        return found


def written(variant: Variant, *, instances: int | None) -> dict[str, Any]:
    """What the engine writes: a plan, or with `instances` a schedule. Raises [`InputError`]; what a format cannot hold
    is a matter of the format."""
    from syncline import engine
    from syncline.errors import InputError

    try:
        return engine.export(variant, instances=instances)
    except InputError as error:
        problems = (replace(p, field="--format") if p.field == "plan" else p for p in error.problems)
        raise InputError(problems) from None


def _name(variant: Variant) -> str:
    """What the plan is called: what it is a plan of."""
    from syncline.schema.programs import FLAT
    from syncline.schema.workloads import kinds_of

    experiment = variant.experiment
    algorithm = experiment.collective.algorithm
    is_line = algorithm in FLAT or len(experiment.grid) == 1
    shape = [experiment.ranks] if is_line else experiment.grid
    return f"{algorithm} {kinds_of(experiment.workload)[0]} {'x'.join(str(size) for size in shape)}"


def _sliced(variant: Variant, asked: _Asked) -> tuple[Variant, list[str]]:
    """The variant with the number of slices that its plan has, and what was assumed. Raises [`InputError`] where
    neither that nor a size is given.
    """
    from syncline import engine
    from syncline.errors import command_line
    from syncline.schema import programs

    assumed: list[str] = []
    experiment = variant.experiment
    if asked.ranks is not None:
        assumed.append(f"topology = {experiment.topology} (--ranks {asked.ranks})")
    pipelined = experiment.collective.slices is None and programs.has_pipelines(experiment)
    switched = any(program.name == IN_SWITCH for program in programs.of(experiment))
    if asked.size is None and (pipelined or switched):
        message = f"a plan of {experiment.collective.algorithm} has a number of slices, which depends on the size"
        raise command_line("--size", None, message, "a size" if switched else "a size, or --set collective.slices=N")
    if not pipelined:
        return variant, assumed
    slices = engine.preview(variant).slices
    if slices is None:
        return variant, assumed
    assumed.append(f"collective.slices = {slices} (auto, for {asked.size})")
    collective = experiment.collective.model_copy(update={"slices": slices})
    return replace(variant, experiment=experiment.model_copy(update={"collective": collective})), assumed


def _print_document(
    variant: Variant,
    warnings: Sequence[str],
    assumed: list[str],
    out: Path | None,
    what: dict[str, Any],
    began: float,
) -> None:
    from syncline import results
    from syncline.schema.workloads import ROOTED, kinds_of

    experiment = variant.experiment
    (kind,) = kinds_of(experiment.workload)
    document = {
        **results.versions(),
        "status": "complete",
        "seed": variant.seed,
        "assumptions": assumed,
        "warnings": list(warnings),
        "fidelity": {"backend": experiment.network.backend},
        "collective": kind,
        "root": experiment.root if kind in ROOTED else None,
        "ranks": experiment.ranks,
        "topology": str(experiment.topology),
        **results.algorithm(variant),
        "file": None if out is None else str(out),
        **what,
        "cost": results.cost(time.monotonic() - began, []),
    }
    print(results.dumps(document))
