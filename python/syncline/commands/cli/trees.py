"""`syncline trees`: the best rate of a collective on a machine, and spanning trees that reach it."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from syncline.base import outputs, progress_display, text_units
from syncline.base.errors import command_line
from syncline.commands.api import exporting, tree_questions
from syncline.commands.api.tree_comparison import Observed
from syncline.commands.cli import (
    complete,
    hybrid_trees,
    options,
    single,
    tables,
    topology,
    trees_compare,
    trees_options,
    trees_page,
    trees_sweep,
)
from syncline.fabric import allocation
from syncline.plans import msccl_write, plan_form
from syncline.plans.mscclpp import write as mscclpp_write
from syncline.report.trees import picture
from syncline.results import entries as results
from syncline.treegen import choice, hybrid, packing, plan

if TYPE_CHECKING:
    from syncline.base.errors import Problem
    from syncline.commands.api.tree_questions import Read
    from syncline.fabric.graph import Graph
    from syncline.treegen.hybrid import Hybrid
    from syncline.treegen.packing import Packing
    from syncline.treegen.question import Question

JSON, PLAN, MSCCL, MSCCLPP = FORMATS = ("json", "plan", "msccl-xml", "mscclpp-json")
SHOWN = 8
"""So many nodes of a certificate are named in the table; the document has all."""
MOST_EDGES = 80
"""So many edges of a tree are named there."""


def trees(
    machine: topology.Machine = None,
    topology_file: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="A file instead of a machine: NCCL XML, nvidia-smi topo, .topo, YAML."),
    ] = None,
    gpus: topology.Gpus = None,
    collective: Annotated[
        str,
        typer.Option(
            metavar="KIND",
            help="broadcast, reduce, scatter, gather, all-gather, reduce-scatter or all-reduce.",
            autocompletion=complete.collectives,
        ),
    ] = "broadcast",
    root: Annotated[
        str | None,
        typer.Option(
            metavar="GPU",
            help="The GPU that data comes from or goes to; if not given, the first one, or any for an all-reduce. "
            "auto: the one with the best rate, then with the smallest predicted time.",
        ),
    ] = None,
    objective: Annotated[
        str,
        typer.Option(metavar="GOAL", help="time: fastest for --size; trees: as few as possible; depth: shallowest."),
    ] = "time",
    size: Annotated[str, typer.Option(metavar="SIZE", help="The vector that trees are chosen for.")] = "100MB",
    overhead: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="What each slice of the vector costs beside its bytes, by which trees are chosen; 5us."
        ),
    ] = None,
    links: Annotated[
        str,
        typer.Option(
            metavar="LINKS",
            help="nvlink, pcie, all, or hybrid: trees over both; auto: nvlink within a machine, all in a cluster.",
        ),
    ] = "auto",
    switch_latency: hybrid_trees.SwitchLatency = None,
    threshold: Annotated[
        str | None,
        typer.Option(metavar="SHARE", help="How much of the rate may be given up for fewer trees, such as 5%."),
    ] = None,
    format_: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="json: a document; plan: JSON of syncline-plan; msccl-xml, mscclpp-json: what real runtimes execute.",
        ),
    ] = JSON,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--out",
            metavar="FILE",
            help="The file for the plan, or for the table of a sweep (.parquet, .csv, .json).",
        ),
    ] = None,
    svg: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the trees, or what a sweep finds, into this SVG file.")
    ] = None,
    html: trees_options.Html = None,
    compare: trees_options.Compare = False,
    backend: trees_options.Backend = None,
    endpoint: trees_options.Endpoint = None,
    sweep: trees_options.Sweep = None,
    sizes: trees_options.Sizes = None,
    every: trees_options.Every = False,
    resume: trees_options.Resume = False,
    threads: options.Threads = None,
    json: options.AsJson = False,
) -> int:
    """Find the best rate of a collective on a machine, and spanning trees that reach it (Blink, MLSys 2020).

    \b
      syncline trees --machine dgx1v --gpus 1,4,5,6
      syncline trees --machine dgx1v --collective all-reduce --json
      syncline trees --machine dgx2 --collective all-gather
      syncline trees --machine dgx1v --objective trees --svg trees.svg
      syncline trees --topology-file links.yaml --gpus 0-3 --root 2
      syncline trees --machine dgx1v --gpus 0,1,3,4,5 --collective scatter --root auto
      syncline trees --machine dgx1v --gpus 0,1,3 --format plan -o trees.json
      syncline trees --machine dgx1v --collective all-reduce --format msccl-xml -o trees.xml
      syncline trees --machine dgx1v --links hybrid --switch-latency 100us --size 500MB
      syncline trees --machine dgx1v --gpus 1,4,5,6 --compare --endpoint streams --html trees.html
      syncline trees --machine dgx1v --sweep allocations --sizes 3-8 -o all.parquet --svg all.svg

    Rates are those of the whole vector, in links of the machine. No schedule can be faster than the bound, which the
    certificate proves: it names sets of GPUs and what the links into them carry. With --compare, the trees are
    simulated beside rings and double binary trees, as `syncline collective` does; with --sweep allocations, a table
    says all of this of every allocation of the machine.
    """
    given = trees_options.Given(
        sweep=sweep,
        sizes=sizes,
        every=every,
        resume=resume,
        threads=threads,
        root=root,
        plan_format=None if format_ == JSON else format_,
        compare=compare,
        output=output,
        pictures=(("--svg", svg), ("--html", html)),
    )
    asked = tree_questions.Asked(
        machine=machine,
        topology_file=topology_file,
        gpus=gpus,
        collective=collective,
        root=root,
        objective=objective,
        size=size,
        overhead=overhead,
        links=links,
        switch_latency=switch_latency,
        threshold=threshold,
        compare=compare,
        backend=backend,
        endpoint=endpoint,
        sweep=sweep is not None,
        costly=(*([f"--format {format_}"] if format_ != JSON else []), *(["--html"] if html is not None else [])),
        problems=(*given.problems(), *_format_problems(format_, output if sweep is None else None, json)),
    )
    read = tree_questions.read(asked)
    if sweep is not None:
        files = trees_sweep.Files(output, svg, html, resume=resume)
        return trees_sweep.run(read, sizes, files, threads, every=every, json=json)
    observed = Observed(progress_display.shown(), lambda warning: options.warn(warning, quiet=False))
    if read.hybrid is not None:
        both = tree_questions.found_hybrid(read)
        if format_ != JSON:
            return _write(_written(read, both, format_, svg), format_, output)
        document = tree_questions.document(read, both, observed)
        return hybrid_trees.show(read.graph, read.gpus, both, document, hybrid_trees.Files(svg, html), json=json)
    found = tree_questions.found(read)
    packing = found.chosen.packing
    if svg is not None:
        trees_page.draw(svg, len(read.gpus), lambda: picture.svg(read.graph, found.asked, packing))
    if format_ != JSON:
        where = _Where.of(read, found.asked, packing, found.wish.overhead_s)
        return _write(where.text(read.graph, format_, read.size_bytes), format_, output)
    document = tree_questions.document(read, found, observed)
    _print(document, json=json)
    if html is not None:
        trees_page.write(html, read.graph, found.asked, packing, document)
    return 0


def _format_problems(format_: str, output: Path | None, json: bool) -> list[Problem]:
    if format_ not in FORMATS:
        return list(command_line("--format", format_, "this is no known format", ", ".join(FORMATS)).problems)
    if output is not None and format_ == JSON:
        return list(command_line("--out", str(output), "only a plan is written into a file", "--format plan").problems)
    if json and format_ != JSON:
        return list(command_line("--json", None, "a plan is no document of results", "--format json").problems)
    return []


@dataclass(frozen=True, slots=True)
class _Where:
    """What trees are for, to write them down."""

    kind: str
    size: str
    machine: str | None
    topology_file: str | None
    gpus: str | None
    asked: Question
    packed: Packing
    overhead_s: float

    @classmethod
    def of(cls, read: Read, asked: Question, packed: Packing, overhead_s: float) -> _Where:
        """Trees on what was read."""
        case = read.case
        return cls(case.kind, case.size, case.machine, case.topology_file, case.gpus, asked, packed, overhead_s)

    def text(self, graph: Graph, format_: str, size: int) -> str:
        """The trees as a file. Raises [`InputError`] where there are none, or the format cannot hold them."""
        packed = self.packed
        if not packed.trees and not packed.stages:
            message = "there are no trees: not all GPUs reach each other, or there is only one"
            if packed.best_rate:
                message = packing.lack(packed, "these GPUs")
            raise command_line(
                "--gpus", self.gpus, message, "GPUs that the links connect (--links all takes PCIe, too)"
            )
        # MSCCL's runtimes repeat a schedule for one part of the vector after the other; a plan does so itself.
        slices = choice.slices(packed, packed.trees, size, self.overhead_s) if format_ == PLAN else 1
        name = f"{packed.collective} trees of {graph.name}"
        form = plan.form(graph, self.asked, packed, slices, name)
        form = hybrid.over_pcie(form) if self.asked.links == "pcie" else form
        return self.written(form, format_)

    def written(self, form: dict[str, Any], format_: str) -> str:
        """A plan as a file."""
        return plan_form.dumps(form) if format_ == PLAN else self._schedule(form, format_)

    def _schedule(self, form: dict[str, Any], format_: str) -> str:
        """The plan in the terms of thread blocks, as `syncline export` has them."""
        import tempfile

        with tempfile.TemporaryDirectory(prefix="syncline-") as folder:
            path = Path(folder) / "trees.json"
            path.write_text(plan_form.dumps(form), encoding="utf-8")
            flags = single.Flags(
                kind=self.kind,
                size=self.size,
                machine=self.machine,
                topology_file=self.topology_file,
                gpus=self.gpus,
                plan=str(path),
            )
            study, _ = single.load(flags, [], None)
            schedule: Any = exporting.written(study.variants[0], instances=1)
        schedule["name"] = form["name"][: exporting.MOST_LETTERS]
        schedule["threads"] = exporting.THREADS
        return msccl_write.write(schedule) if format_ == MSCCL else mscclpp_write.write(schedule)


def _written(read: Read, found: Hybrid, format_: str, svg: Path | None) -> str:
    """The plan of hybrid trees as a file, beside which they are drawn if that is asked for."""
    form = hybrid_trees.plan(read.graph, found, read.case.gpus, format_)
    if svg is not None:
        trees_page.draw(svg, len(read.gpus), lambda: hybrid_trees.picture(read.graph, found))
    part = found.nvlink
    return _Where.of(read, part.asked, part.packed, part.overhead_s).written(form, format_)


def _write(text: str, format_: str, output: Path | None) -> int:
    if output is None:
        sys.stdout.write(text)
        return 0
    outputs.write(output, text, exporting.KINDS[format_])
    print(f"{format_}: {output}", file=sys.stderr)
    return 0


def _print(document: dict[str, Any], *, json: bool) -> None:
    if json:
        print(results.dumps(document))
        return
    rate = text_units.bandwidth(document["rate_bytes_per_s"])
    pairs = [
        (
            "rate",
            f"{document['rate_links']:g} links of {text_units.bandwidth(document['link_unit_bytes_per_s'])} ({rate})",
        ),
        ("no more than", f"{document['optimal_rate_links']:g} links"),
        ("limited by", _limit(document["certificate"])),
    ]
    for way, predicted in (document["predicted_times_s"] or {}).items():
        pairs.append(
            (way.replace("-", " "), f"{text_units.duration(predicted)} for {text_units.size(document['size_bytes'])}")
        )
    if document["fewest_possible"]:
        pairs.append(("trees", f"{len(document['trees'])}; at least {document['fewest_possible']} at this rate"))
    gpus = ", ".join(map(str, document["gpus"]))
    if len(document["gpus"]) > MOST_EDGES:
        gpus = allocation.canonical(document["gpus"])
    tables.show(tables.pairs(f"{document['collective']} on {document['machine']}, GPUs {gpus}", pairs))
    if document["symmetry"] is not None:
        roots = len({tree["root"] for tree in document["trees"]})
        whose = "one root" if roots == 1 else f"{roots} roots"
        print(f"  trees of {whose}, whose images are those of all {roots * document['symmetry']['roots']}:")
    for tree in document["trees"]:
        edges = " ".join(f"{src}-{dst}" for src, dst in tree["edges"][:MOST_EDGES])
        edges += f" and {more} more" if (more := len(tree["edges"]) - MOST_EDGES) > 0 else ""
        kind = f"{tree['collective']}: " if "collective" in tree else ""
        back = "".join(f" {src}-{dst}" for src, dst in tree.get("edges_to_root", ()))
        to_root = f"; to the root{back}" if back else ""
        print(f"  {kind}root {tree['root']}, weight {tree['weight']:.4g}, depth {tree['depth']}: {edges}{to_root}")
    if "comparison" in document:
        trees_compare.show(document)
    for warning in document["warnings"]:
        print(f"warning: {warning}", file=sys.stderr)


def _limit(certificate: dict[str, Any] | None) -> str:
    """The certificate in words."""
    if certificate is None:
        return "nothing: there is one GPU"
    capacity = f"{certificate['capacity_links']:g} links"
    if len(certificate["sets"]) == 1:
        names = certificate["sets"][0]
        more = f" and {len(names) - SHOWN} more nodes" if len(names) > SHOWN else ""
        return f"{capacity} across the border of {', '.join(names[:SHOWN])}{more}"
    ways = "into and out of" if certificate["times"] else "into"
    return f"{capacity} {ways} {len(certificate['sets'])} sets of GPUs"
