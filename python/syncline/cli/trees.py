"""`syncline trees`: the best rate of a collective on a machine, and spanning trees that reach it."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from syncline.cli import options, packed_trees, topology

if TYPE_CHECKING:
    from syncline.fabric.graph import Graph
    from syncline.trees.choice import Chosen
    from syncline.trees.packing import Packing
    from syncline.trees.question import Question

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
            metavar="KIND", help="broadcast, reduce, scatter, gather, all-gather, reduce-scatter or all-reduce."
        ),
    ] = "broadcast",
    root: Annotated[
        int | None,
        typer.Option(metavar="GPU", help="The GPU that data comes from or goes to; if not given, the first one."),
    ] = None,
    objective: Annotated[
        str,
        typer.Option(metavar="GOAL", help="time: fastest for --size; trees: as few as possible; depth: shallowest."),
    ] = "time",
    size: Annotated[str, typer.Option(metavar="SIZE", help="The vector that trees are chosen for.")] = "100MB",
    links: Annotated[
        str,
        typer.Option(metavar="LINKS", help="nvlink, or all; auto: nvlink within a machine, all in a cluster."),
    ] = "auto",
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
        typer.Option("-o", "--out", metavar="FILE", help="The file for the plan; otherwise standard output."),
    ] = None,
    svg: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the trees into this SVG file.")] = None,
    json: options.AsJson = False,
) -> int:
    """Find the best rate of a collective on a machine, and spanning trees that reach it (Blink, MLSys 2020).

    \b
      syncline trees --machine dgx1v --gpus 1,4,5,6
      syncline trees --machine dgx1v --collective all-reduce --json
      syncline trees --machine dgx2 --collective all-gather
      syncline trees --machine dgx1v --objective trees --svg trees.svg
      syncline trees --topology-file links.yaml --gpus 0-3 --root 2
      syncline trees --machine dgx1v --gpus 0,1,3 --format plan -o trees.json
      syncline trees --machine dgx1v --collective all-reduce --format msccl-xml -o trees.xml

    Rates are those of the whole vector, in links of the machine. No schedule can be faster than the bound, which the
    certificate proves: it names sets of GPUs and what the links into them carry.
    """
    from syncline.errors import InputError

    began = time.monotonic()
    graph = _graph(machine, topology_file)
    chosen_gpus = topology.allocated(graph, gpus)
    kind, goal, over, bytes_, share, problems = _checked(collective, objective, links, size, threshold)
    problems += _format_problems(format_, output, json)
    if root is not None and root not in chosen_gpus:
        problems += _root_problem(root, chosen_gpus)
    from syncline import results
    from syncline.trees import choice, packing, question

    most = question.MOST_RATED if format_ == JSON else question.MOST_GPUS
    problems += packed_trees.too_many(chosen_gpus, gpus, most)
    if problems:
        raise InputError(problems)
    asked = question.asked(graph, chosen_gpus, over)
    packed = packing.of(asked, kind, 0 if root is None else chosen_gpus.index(root))
    chosen = choice.of(packed, goal, bytes_, share)
    if svg is not None:
        _draw(graph, asked, replace(packed, trees=chosen.trees), svg)
    if format_ != JSON:
        where = _Where(kind, size, machine, topology_file, gpus, asked, packed, chosen)
        return _write(where.text(graph, format_, bytes_), format_, output)
    document = _document(graph, asked, packed, chosen, goal, bytes_)
    document["cost"] = results.cost(time.monotonic() - began, [])
    _print(document, json=json)
    return 0


def _draw(graph: Graph, asked: Question, packed: Packing, path: Path) -> None:
    from syncline import rundir
    from syncline.errors import command_line
    from syncline.fabric.circle_layout import MOST_DRAWN
    from syncline.trees import picture

    if len(asked.gpus) > MOST_DRAWN:
        message = f"trees of {len(asked.gpus)} GPUs are not drawn"
        raise command_line("--svg", str(path), message, f"up to {MOST_DRAWN} GPUs")
    try:
        rundir.write(path, picture.svg(graph, asked, packed))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise command_line("--svg", str(path), f"this cannot be written: {reason}") from None
    print(f"picture: {path}", file=sys.stderr)


def _graph(machine: str | None, file: str | None) -> Graph:
    from syncline.errors import command_line

    if (machine is None) == (file is None):
        message = "no machine is given" if machine is None else "a machine and --topology-file exclude each other"
        raise command_line("--machine", machine, message, "--machine M or --topology-file FILE")
    return packed_trees.fabric(machine, file)


def _checked(collective: str, objective: str, links: str, size: str, threshold: str | None) -> Any:
    """The values of options, and what is wrong with them."""
    from syncline import quantities
    from syncline.errors import command_line
    from syncline.trees import choice, packing, question

    problems: list[Any] = []
    for flag, value, accepted in (
        ("--collective", collective, tuple(packing.TASKS)),
        ("--objective", objective, choice.OBJECTIVES),
        ("--links", links, question.LINKS),
    ):
        if value not in accepted:
            problems += command_line(flag, value, f"this is no known {flag[2:]}", ", ".join(accepted)).problems
    bytes_, share = 0, Fraction(0)
    try:
        bytes_ = quantities.size(size)
    except quantities.QuantityError as error:
        problems += command_line("--size", size, error.message, error.accepted).problems
    try:
        share = Fraction(0) if threshold is None else quantities.share(threshold)
        if share == 1:
            raise quantities.QuantityError("nothing would be left of the rate", "a percentage below 100%")
    except quantities.QuantityError as error:
        problems += command_line("--threshold", threshold, error.message, error.accepted).problems
    if threshold is not None and objective != "trees":
        message = "only fewer trees are worth a loss of rate"
        problems += command_line("--threshold", threshold, message, "--objective trees beside it").problems
    return collective, objective, links, bytes_, float(share), problems


def _format_problems(format_: str, output: Path | None, json: bool) -> list[Any]:
    from syncline.errors import command_line

    if format_ not in FORMATS:
        return list(command_line("--format", format_, "this is no known format", ", ".join(FORMATS)).problems)
    if output is not None and format_ == JSON:
        return list(command_line("--out", str(output), "only a plan is written into a file", "--format plan").problems)
    if json and format_ != JSON:
        return list(command_line("--json", None, "a plan is no document of results", "--format json").problems)
    return []


def _root_problem(root: int, gpus: tuple[int, ...]) -> list[Any]:
    from syncline.errors import command_line
    from syncline.fabric import allocation

    message = f"GPU {root} does not take part"
    return list(command_line("--root", str(root), message, f"one of {allocation.canonical(gpus)}").problems)


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
    chosen: Chosen

    def text(self, graph: Graph, format_: str, size: int) -> str:
        """The trees as a file. Raises [`InputError`] where there are none, or the format cannot hold them."""
        from syncline.errors import command_line
        from syncline.schedules import plan_form
        from syncline.trees import choice, plan

        trees, packed = self.chosen.trees, self.packed
        if packed.collective in packed_trees.WITHOUT_PLANS:
            kinds = "broadcast, reduce, all-gather, reduce-scatter or all-reduce"
            raise command_line("--collective", packed.collective, "plans of trees do not carry this out yet", kinds)
        if not trees:
            message = "there are no trees: not all GPUs reach each other, or there is only one"
            raise command_line(
                "--gpus", self.gpus, message, "GPUs that the links connect (--links all takes PCIe, too)"
            )
        # MSCCL's runtimes repeat a schedule for one part of the vector after the other; a plan does so itself.
        slices = choice.slices(packed, trees, size) if format_ == PLAN else 1
        name = f"{packed.collective} trees of {graph.name}"
        form = plan.form(graph, self.asked, replace(packed, trees=trees), slices, name)
        return plan_form.dumps(form) if format_ == PLAN else self._schedule(form, format_)

    def _schedule(self, form: dict[str, Any], format_: str) -> str:
        """The plan in the terms of thread blocks, as `syncline export` has them."""
        import tempfile

        from syncline.cli import export, single
        from syncline.schedules import msccl_write, plan_form
        from syncline.schedules.mscclpp import write as mscclpp_write

        with tempfile.TemporaryDirectory(prefix="syncline-") as folder:
            path = Path(folder) / "trees.json"
            path.write_text(plan_form.dumps(form), encoding="utf-8")
            flags = single.Flags(
                kind=self.kind,
                size=self.size,
                topology=None,
                machine=self.machine,
                topology_file=self.topology_file,
                gpus=self.gpus,
                groups=[],
                root=None,
                endpoint=None,
                algorithm=None,
                backend=None,
                plan=str(path),
            )
            study, _ = single.load(flags, [], None)
            schedule: Any = export.written(study.variants[0], instances=1)
        schedule["name"] = form["name"][: export.MOST_LETTERS]
        schedule["threads"] = export.THREADS
        return msccl_write.write(schedule) if format_ == MSCCL else mscclpp_write.write(schedule)


def _write(text: str, format_: str, output: Path | None) -> int:
    from syncline import rundir
    from syncline.errors import command_line

    if output is None:
        sys.stdout.write(text)
        return 0
    try:
        rundir.write(output, text)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise command_line("--out", str(output), f"this cannot be written: {reason}") from None
    print(f"{format_}: {output}", file=sys.stderr)
    return 0


def _document(
    graph: Graph, asked: Question, packed: Packing, chosen: Chosen, objective: str, size: int
) -> dict[str, Any]:
    from syncline import __version__, results
    from syncline.trees import choice

    unit = asked.link_unit
    gpu = asked.gpus
    rate = replace(packed, trees=chosen.trees).rate
    warnings = list(graph.warnings)
    if len(packed.components) > 1:
        others = " (--links all takes PCIe, too)" if asked.links == "nvlink" and asked.others else ""
        warnings.append(f"the GPUs do not all reach each other over the links that trees may use{others}")
    if packed.best_rate > packed.rate and len(packed.components) == 1:
        warnings.append(
            "these trees do not reach the bound: links carry unequal rates either way, or switches send more than "
            "they receive"
        )
    bound = packed.bound
    return {
        "schema_version": results.SCHEMA_VERSION,
        "version": __version__,
        "status": "complete",
        "seed": None,
        "fidelity": {"backend": None},
        "machine": graph.name,
        "gpus": list(gpu),
        "collective": packed.collective,
        "links": asked.links,
        "objective": objective,
        "link_unit_bytes_per_s": unit,
        "rate_links": float(rate / unit),
        "optimal_rate_links": float(packed.best_rate / unit),
        "rate_bytes_per_s": float(rate),
        "predicted_time_s": choice.seconds(packed, chosen.trees, size) if chosen.trees else None,
        "size_bytes": size,
        "fewest_possible": chosen.at_least,
        "trees": [
            {
                "root": gpu[tree.root],
                "weight": float(tree.weight / unit),
                "edges": [[gpu[packed.arcs[arc].src], gpu[packed.arcs[arc].dst]] for arc in tree.arcs],
                "depth": tree.depth(packed.arcs),
                "via": [[graph.nodes[asked.nodes[node]].name for node in packed.arcs[arc].via] for arc in tree.arcs],
            }
            for tree in chosen.trees
        ],
        "symmetry": None
        if not packed.generators
        else {"roots": packed.roots, "generators": [[gpu[to] for to in images] for images in packed.generators]},
        "components": [[gpu[place] for place in group] for group in packed.components],
        "certificate": None
        if bound is None
        else {
            "sets": [[graph.nodes[asked.nodes[node]].name for node in nodes] for nodes in bound.sets],
            "capacity_links": float(bound.capacity / unit),
            "rate_links": float(packed.best_rate / unit),
        },
        "assumptions": list(graph.assumptions),
        "warnings": warnings,
    }


def _print(document: dict[str, Any], *, json: bool) -> None:
    from syncline import results

    if json:
        print(results.dumps(document))
        return
    from syncline import text_units
    from syncline.cli import tables
    from syncline.fabric import allocation

    rate = text_units.bandwidth(document["rate_bytes_per_s"])
    pairs = [
        (
            "rate",
            f"{document['rate_links']:g} links of {text_units.bandwidth(document['link_unit_bytes_per_s'])} ({rate})",
        ),
        ("no more than", f"{document['optimal_rate_links']:g} links"),
        ("limited by", _limit(document["certificate"])),
    ]
    if document["fewest_possible"]:
        pairs.append(("trees", f"{len(document['trees'])}; at least {document['fewest_possible']} at this rate"))
    gpus = ", ".join(map(str, document["gpus"]))
    if len(document["gpus"]) > MOST_EDGES:
        gpus = allocation.canonical(document["gpus"])
    tables.show(tables.pairs(f"{document['collective']} on {document['machine']}, GPUs {gpus}", pairs))
    if document["symmetry"] is not None:
        print(f"  trees of one root, whose images are those of all {document['symmetry']['roots']}:")
    for tree in document["trees"]:
        edges = " ".join(f"{src}-{dst}" for src, dst in tree["edges"][:MOST_EDGES])
        edges += f" and {more} more" if (more := len(tree["edges"]) - MOST_EDGES) > 0 else ""
        print(f"  root {tree['root']}, weight {tree['weight']:.4g}, depth {tree['depth']}: {edges}")
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
    return f"{capacity} into {len(certificate['sets'])} sets of GPUs"
