"""`syncline init`: an experiment to start from, and the schema by which an editor completes and checks it."""

from __future__ import annotations

import json as json_text
import re
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from syncline.base import document
from syncline.base.errors import FULL, InputError, NotWrittenError, command_line
from syncline.commands.cli import complete, options
from syncline.experiment import export, load
from syncline.experiment import packaged as studies
from syncline.results import entries as results
from syncline.sections.experiment import NAME_ACCEPTED, NAME_PATTERN
from syncline.sections.workloads import ModelWorkload
from syncline.strategies import capacity, fit

if TYPE_CHECKING:
    from syncline.base.errors import Problem
    from syncline.experiment.load import Study
    from syncline.sections.experiment import Experiment

SCHEMA: Final = "experiment.schema.json"
MODELINE: Final = f"# yaml-language-server: $schema={SCHEMA}\n"
"""What ties a file to its schema in editors with the YAML language server: a path from the file, nothing is fetched."""
MACHINE: Final = "dgx-a100(nodes=2, nic_rate=100Gb/s)"
FASTER: Final = "dgx-a100(nodes=2, nic_rate=200Gb/s)"
MODEL: Final = "bert-large"
TEMPLATE: Final = Path(__file__).parents[1] / "template.yaml"
COPIES: Final = """\
# What is trained, and how many samples an NPU computes in an iteration; also {collective: all-reduce, size: 64MB}.
workload: {model: @MODEL@, batch: @BATCH@}
"""
DIVIDED: Final = """\
# What is trained, and how many samples all NPUs compute in an iteration; also {collective: all-reduce, size: 64MB}.
workload: {model: @MODEL@, global_batch: @BATCH@}

# How the model is divided, so that it fits into the memory of an NPU: syncline fit @PATH@ lists what else does.
parallel: {@WAYS@}
"""
"""What a model has that does not fit where all NPUs have copies."""
NO_OVERLAP: Final = """\
  - name: no-overlap                    # all communication after back-propagation
    training: {overlap: false}
"""
"""A variant that needs the most memory: gradients are there as a whole when back-propagation ends."""
CHUNKS: Final = {COPIES: "4MiB", DIVIDED: "64MiB"}
"""Pieces of collectives: of a model that is large they are larger, since a run costs as much as it has pieces."""
BATCHES: Final = (8, 4, 2, 1)
"""Samples of an NPU with a copy, as many of them as fit."""
_NAME: Final = re.compile(r"^name:.*$", re.MULTILINE)


def init(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The experiment; NAME.yaml is written.")],
    from_: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="STUDY",
            help="Begin with a study or an example, in place of the template.",
            autocompletion=complete.experiments,
        ),
    ] = None,
    machine: Annotated[
        str | None,
        typer.Option(
            metavar="M",
            help='The machine, such as dgx-h100 or "dgx-a100(nodes=4)", or a topology string.',
            autocompletion=complete.machines,
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="The model that is trained.", autocompletion=complete.models),
    ] = None,
    schema: Annotated[
        bool, typer.Option("--schema/--no-schema", help=f"Write {SCHEMA} beside it, for editors.")
    ] = True,
    json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> int:
    """Write an experiment to start from, with comments; it runs at once, and shows exposed communication.

    \b
      syncline init my-cluster
      syncline init my-cluster --machine "dgx-h100(nodes=4)" --model gpt2
      syncline init mine --from ace/resnet50

    Files that exist are never overwritten. The first line of the experiment names experiment.schema.json beside it, by
    which editors with the YAML language server complete keys and mark errors, offline.
    """
    problems = _problems(name, from_, machine, model)
    if problems:
        raise InputError(problems)
    file = Path(name if name.endswith((".yaml", ".yml")) else f"{name}.yaml")
    if from_ is not None:
        text = _from_study(file, from_)
        _loaded(text, file.parent, from_)
    else:
        text = _from_template(file, machine, model)
    written = {"experiment": _new(file, (MODELINE if schema else "") + text)}
    beside = file.with_name(SCHEMA)
    kept = schema and beside.exists()
    if schema and not kept:
        written["schema"] = _new(beside, results.dumps(export.json_schema()) + "\n")
    if json:
        document = results.document([], seed=0, status="complete", warnings=[])
        print(results.dumps(document | {"files": written}))
    elif not quiet:
        for path in written.values():
            print(path)
        print(f"run it with: syncline run {shlex.quote(str(file))}", file=sys.stderr)
    if kept and not quiet:
        print(f"{beside} is kept as it is", file=sys.stderr)
    return 0


def _problems(name: str, from_: str | None, machine: str | None, model: str | None) -> list[Problem]:
    found: list[Problem] = []
    file = Path(name)
    stem = file.name.removesuffix(".yaml").removesuffix(".yml")
    if not re.fullmatch(NAME_PATTERN, stem):
        found += command_line("NAME", name, "this is not a legal name", NAME_ACCEPTED).problems
    elif not file.parent.is_dir():
        found += command_line("NAME", name, "the folder of this file does not exist").problems
    for flag, value in (("--machine", machine), ("--model", model)):
        if from_ is not None and value is not None:
            message = "--from says this; change it in the file"
            found += command_line(flag, value, message, "one of the two").problems
    return found


def _from_template(file: Path, machine: str | None, model: str | None) -> str:
    """The template with a machine and a model that fits on it: copies on all NPUs, or else divided no further than it
    takes. Raises [`InputError`] where it fits in no way.
    """
    faster = f'  - name: twice-the-network\n    topology: "{FASTER}"\n' if machine is None else ""
    values = {"PATH": shlex.quote(str(file)), "NAME": file.stem, "FOLDER": shlex.quote(f"runs/{file.stem}")}
    values["TOPOLOGY"] = _quoted(MACHINE if machine is None else machine)
    values["MODEL"] = MODEL if model is None else _quoted(model)

    def filled(workload: str, no_overlap: str = NO_OVERLAP, **more: str) -> str:
        text = TEMPLATE.read_text(encoding="utf-8").replace("@NETWORK@", faster).replace("@WORKLOAD@", workload)
        text = text.replace("@NO_OVERLAP@", no_overlap).replace("@CHUNK@", CHUNKS[workload])
        for key, value in {**values, **more}.items():
            text = text.replace(f"@{key}@", value)
        return text

    study = _loaded(filled(COPIES, BATCH=str(BATCHES[0])), file.parent, None)
    experiment = next(v.experiment for v in study.variants if not v.experiment.training.overlap)
    if batch := _batch(experiment):
        text = filled(COPIES, BATCH=str(batch))
    elif ways := _division(experiment):
        text = filled(DIVIDED, **ways)
    elif ways := _division(study.variants[0].experiment):
        text = filled(DIVIDED, no_overlap="", **ways)
    else:
        message = f"no division of this model fits into the memory of {experiment.ranks} NPUs with a sample for each"
        raise command_line("--model", str(model or MODEL), message, "a smaller model, or more NPUs (--machine)")
    _loaded(text, file.parent, None)
    return text


def _batch(experiment: Experiment) -> int:
    """How many samples an NPU has memory for beside a copy of the model; 0 if there is none for a copy."""
    assert isinstance(experiment.workload, ModelWorkload)
    most = capacity.most_samples(experiment, experiment.workload)
    return BATCHES[0] if most is None else next((batch for batch in BATCHES if batch <= most), 0)


def _division(experiment: Experiment) -> dict[str, str] | None:
    """The keys of `parallel` with which a model fits, and a batch with a sample for each NPU; nothing if there are
    none.
    """
    workload, available, npus = experiment.workload, experiment.npu.available, experiment.ranks
    assert isinstance(workload, ModelWorkload)
    request = capacity.as_divided(experiment, workload, npus)
    found = None if available is None else fit.first_that_fits(request, available)
    return None if found is None else {"WAYS": fit.changes(request, found), "BATCH": str(npus)}


def _quoted(text: str) -> str:
    """A text as YAML."""
    return json_text.dumps(text, ensure_ascii=False)


def _from_study(file: Path, given: str) -> str:
    path, label = studies.find(given)
    text = document.read_text(path, label)
    lines = [line for line in text.splitlines(keepends=True) if not line.startswith("# yaml-language-server")]
    named, times = _NAME.subn(f"name: {file.stem}", "".join(lines), count=1)
    head = f"# From {label}.\n"
    return head + (named if times else f"name: {file.stem}\n{named}")


def _loaded(text: str, folder: Path, from_: str | None) -> Study:
    """What a text says at its place. Raises [`InputError`] with what is wrong, by the flags that say it."""
    flags = {"topology": "--machine", "workload.model": "--model"} if from_ is None else {}
    try:
        return load.load(document.read(text, "NAME"), "NAME", folder, (), ())
    except InputError as error:
        place = {"file": "command line", "line": None}
        raise InputError(
            replace(problem, **place, field=flags.get(problem.field, f"--from: {problem.field}"))  # type: ignore[arg-type]
            for problem in error.problems
        ) from None


def _new(path: Path, text: str) -> str:
    """Writes a file that is not there yet. Raises [`InputError`] where it is, or cannot be written."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise command_line("NAME", str(path), "this file exists, and is not overwritten", "another name") from None
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno in FULL:
            path.unlink(missing_ok=True)  # a part of it, in the way of another try
            raise NotWrittenError(error.errno, error.strerror, str(path)) from None
        reason = error.strerror if isinstance(error, OSError) else error
        raise command_line("NAME", str(path), f"this cannot be written: {reason}") from None
    return str(path)
