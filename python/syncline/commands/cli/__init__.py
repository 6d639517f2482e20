"""The command line. `main` turns every way to fail that is known into an exit status and a message; what else is raised
`syncline.__main__` makes a line of.

Exit status: 0 done, 1 a simulation failed, a schedule is wrong or the disk is full, 2 the input is wrong, 130
interrupted.
"""

from __future__ import annotations

import atexit
import functools
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn, TextIO

import typer

from syncline import _version
from syncline.base import inputs, interrupts
from syncline.base.errors import FULL, InputError, NotWrittenError, SimulationFailedError
from syncline.commands.cli import shells, usage
from syncline.commands.cli.table import Commands
from syncline.core.binding import EngineUnusableError

DONE, FAILED, WRONG_INPUT, INTERRUPTED = 0, 1, 2, interrupts.STATUS

EXAMPLES = """Simulates distributed training: how long an iteration takes on a fabric, and why.

\b
  syncline init mine                                an experiment to start from
  syncline list machines                            what there is by name
  syncline run ace/resnet50 --out runs/resnet50     five systems, with a report
  syncline run my.yaml --set training.iterations=4  an experiment of your own
  syncline explain runs/resnet50                    what limits each of them, and what would help
  syncline diff runs/before runs/after              where the time of two runs differs
  syncline sweep ace/design-space --out space.parquet   every combination of values
  syncline figure ace/fig11 --out figures           simulates and draws a published figure
  syncline fit gpt.yaml                             which divisions of a model fit into memory
  syncline search gpt.search.yaml -o gpt.parquet    the fastest of them
  syncline collective all-reduce --size 64MB --topology "Torus(4,8,4)"
  syncline bench all-reduce --machine dgx-h100      predicts the table of nccl-tests
  syncline measure gpt2 --out gpt2.csv              times the kernels of a model with PyTorch
  syncline reproduce ace                            compares with published figures
  syncline trees --machine dgx1v --gpus 1,4,5,6     the best rate of an allocation, and trees that reach it
  syncline verify examples/plans/ring4.xml          checks a collective schedule
  syncline export all-reduce --algorithm ring --ranks 8   writes an algorithm down, as a plan or as MSCCL XML
  syncline import chakra traces/all_reduce          traces of other programs, as an experiment

Quantities carry units: 64MiB, 25GB/s, 100Gb/s, 1.5us, 500cycles@1245MHz."""


app = typer.Typer(
    name="syncline",
    cls=Commands,
    help=EXAMPLES,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

# What typer raises for flags that it does not know; the class itself is not public.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", help="Print the version and stop."),
) -> None:
    if version:
        typer.echo(_version.version())
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(WRONG_INPUT)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs the command line and ends the process."""
    sys.stdout = sys.stdout or _nowhere()
    sys.stderr = sys.stderr or _nowhere()
    try:
        interrupts.listen()
        status = run(sys.argv[1:] if arguments is None else arguments)
        interrupts.leave_at_once()
        if interrupts.happened() and status not in (DONE, INTERRUPTED):
            interrupts.leave()
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) or interrupts.happened():
            interrupts.leave()
        raise
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = status if isinstance(error, BrokenPipeError) else status or _unwritable(error)
    if status != INTERRUPTED:
        atexit._run_exitfuncs()
    # Simulations that are under way cannot be stopped, only left behind; and while Python ends itself, an interrupt
    # would end it by the signal instead.
    os._exit(status)


def _nowhere() -> TextIO:
    """In place of a stream that was closed by whoever started this."""
    return os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")


@functools.cache
def command() -> Any:
    """All commands. Reading their parameters takes as long as a small simulation."""
    return typer.main.get_command(app)


def run(arguments: Sequence[str]) -> int:
    """Runs the command line and returns the exit status."""
    as_json = "--json" in arguments
    with inputs.remembered():
        return _run(arguments, as_json=as_json)


def _run(arguments: Sequence[str], *, as_json: bool) -> int:
    whole = command()
    try:
        if shells.is_asked():
            return shells.answer(whole)
        # Not `app(...)`: that ends an interrupted command without a word.
        with whole.make_context(whole.name, list(arguments)) as context:
            return int(whole.invoke(context) or DONE)
    except typer.Exit as done:
        return done.exit_code
    except InputError as error:
        _complain(error, as_json)
        return WRONG_INPUT
    except EngineUnusableError as error:
        _complain(InputError([error.problem]), as_json)
        return WRONG_INPUT
    except SimulationFailedError as error:
        print(f"the simulation failed: {error}", file=sys.stderr)
        return FAILED
    except (KeyboardInterrupt, typer.Abort):
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        return DONE
    except MemoryError:
        print("there is not enough memory for this", file=sys.stderr)
        return FAILED
    except OSError as error:
        return _unwritable(error)
    except _UsageError as error:
        _complain(InputError([usage.problem(error)]), as_json)
        return WRONG_INPUT


def _unwritable(error: OSError) -> int:
    if error.filename is None and error.errno in FULL:  # files that cannot be written are named
        print(f"standard output cannot be written: {error.strerror}", file=sys.stderr)
        return FAILED
    place = "" if error.filename is None else f"{error.filename}: "
    wrong = "cannot be written" if isinstance(error, NotWrittenError) else "cannot be used"
    print(f"{place}{wrong}: {error.strerror or error}", file=sys.stderr)
    for note in getattr(error, "__notes__", ()):
        print(note, file=sys.stderr)
    return FAILED


def _complain(error: InputError, as_json: bool) -> None:
    print(error.as_json() if as_json else error.as_text(), file=sys.stderr)
