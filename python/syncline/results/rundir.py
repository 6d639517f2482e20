"""One run, one directory.

    manifest.json               version, configuration hash, seed, command, variants that are finished
    experiment.resolved.yaml    every variant with every field filled in; can be run again
    summary.json                the document of `--json`
    inputs/                     workload files, topology files and plans that the experiment names
    <variant>/tables/*.parquet
    <variant>/trace.json        Chrome trace events; trace.json.gz or trace.pftrace (Perfetto) where that is asked for
    <variant>/pcap/*.pcap       what left by ports that are captured
    report.html
    explain.json                the document of `syncline explain`, if that was asked

Every file is written beside its place and moved there, a variant's directory as a whole. What is readable is
complete; an interrupted run has `status: partial` and the variants that were finished.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from syncline import _version
from syncline.base import atomic, folders, inputs
from syncline.base.document import scalar
from syncline.base.errors import InputError, NotWrittenError, Problem, shown
from syncline.engine import in_flight
from syncline.engine.runs import Result
from syncline.experiment import packaged as studies
from syncline.experiment.load import Study, Variant
from syncline.plans.planned import PlanFile
from syncline.results import documents, parquet, traces
from syncline.results.entries import Document, dumps
from syncline.sections.graph_file import GraphFile
from syncline.sections.networks import captures
from syncline.sections.workloads import GraphWorkload, models_of

if TYPE_CHECKING:
    import pyarrow as pa

MANIFEST: Final = "manifest.json"
RESOLVED: Final = "experiment.resolved.yaml"
"""Every variant as it was run."""
KIND: Final = "syncline run"
EXPLAINED: Final = "explain.json"
"""What `syncline explain` found of the run, if it was asked."""

PageMaker = Callable[[Document, "Mapping[str, Mapping[str, pa.Table]]", Sequence[Variant], str], str]
"""Makes the page of a run of its document, the tables of each variant by name, the variants, and the command."""


@dataclass(slots=True)
class RunDirectory:
    """The directory of a run that is being written."""

    path: Path
    study: Study
    command: str
    seed: int
    page: PageMaker
    """Makes the page of the run."""
    trace: str = traces.DEFAULT
    """The suffix of traces, which says what they are written as."""
    finished: list[str] = field(default_factory=list)
    _prepared: bool = False

    def check(self) -> None:
        """Refuses a directory that is something else, or cannot be made: it is not made before there is something to
        write. Raises [`InputError`].
        """
        if str(self.path).startswith("--"):
            raise _refused(self.path, "this looks like a flag; the directory is missing")
        try:
            self.path.as_posix().encode()
            if self.path.is_symlink() or self.path.exists():
                if not self.path.is_dir():
                    raise _refused(self.path, "this exists and is not a directory")
                if any(self.path.iterdir()) and _manifest(self.path) is None:
                    raise _refused(self.path, "this directory is neither empty nor the directory of a run")
        except UnicodeError:
            raise _refused(self.path, "the name is not legal text") from None
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise _refused(self.path, f"this directory cannot be used: {reason}") from None
        if wrong := folders.refusal(self.path):
            raise _refused(self.path, wrong)

    def replaced(self) -> str | None:
        """The name of the experiment whose results are there and will be replaced, if it is another one."""
        there = (_manifest(self.path) or {}).get("name")
        return None if there is None or there == self.study.name else str(there)

    def add(self, variant: Variant, result: Result) -> None:
        """Writes the tables and the trace of a finished variant. Raises [`NotWrittenError`] where it cannot."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            self._prepare()
            staging = Path(tempfile.mkdtemp(prefix=".incomplete-", dir=self.path))
        except OSError as error:
            raise atomic.not_written(error, self.path) from None
        try:
            tables = staging / "tables"
            tables.mkdir()
            for name, table in result.tables.items():
                # Files have a place of their own.
                kept = [
                    column for column in table.column_names if not pa.types.is_large_binary(table.field(column).type)
                ]
                pq.write_table(table.select(kept), tables / f"{name}.parquet")
            if captures.TABLE in result.tables and result.tables[captures.TABLE].num_rows:
                (staging / "pcap").mkdir()
                for name, content in captures.files(result.tables[captures.TABLE]):
                    (staging / "pcap" / name).write_bytes(content)
            limit = variant.experiment.output.trace_limit
            trace = traces.build(self.trace, result.tables, variant.name, limit=limit)
            (staging / f"trace{self.trace}").write_bytes(trace)
            staging.chmod(0o755)
            staging.rename(self.path / variant.name)
        except BaseException as error:
            shutil.rmtree(staging, ignore_errors=True)
            if isinstance(error, OSError):
                raise atomic.not_written(error, self.path / variant.name) from None
            raise
        self.finished.append(variant.name)
        self._write_manifest("partial")

    def close(self, document: Document, tables: Mapping[str, Mapping[str, pa.Table]]) -> None:
        """Writes what is about the whole run: its document, and its page. Raises [`NotWrittenError`] where that cannot
        be done.
        """
        self._prepare()
        atomic.write(self.path / "summary.json", dumps(document) + "\n")
        text = self.page(document, tables, self.study.variants, self.command)
        is_whole = set(self.finished) >= set(tables)
        self._write_manifest(document["status"] if is_whole else "partial")
        try:
            atomic.write(self.path / "report.html", text)
        except NotWrittenError as error:
            if is_whole:
                again = shlex.join(["syncline", "report", str(self.path)])
                error.add_note(f"all numbers are in {self.path}: once it can be written, `{again}` makes the page")
            raise

    def _prepare(self) -> None:
        """Makes the directory, and removes the previous run's results, which the new ones replace."""
        if self._prepared:
            return
        self.path.mkdir(parents=True, exist_ok=True)
        self._prepared = True
        for leftover in self.path.glob(".incomplete-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        for name in (_manifest(self.path) or {}).get("variants", []):
            shutil.rmtree(self.path / name, ignore_errors=True)
        for name in ("summary.json", "report.html", EXPLAINED):
            with suppress(FileNotFoundError):
                (self.path / name).unlink()
        self._write_manifest("partial")
        inputs = _inputs(self.study.variants)
        if inputs:
            (self.path / "inputs").mkdir(exist_ok=True)
        for name, content in inputs.items():
            atomic.write(self.path / name, content)
        atomic.write(self.path / RESOLVED, resolved_yaml(self.study))

    def _write_manifest(self, status: str) -> None:
        manifest = {
            "schema_version": _version.SCHEMA_VERSION,
            "kind": KIND,
            "version": _version.version(),
            "status": status,
            "name": self.study.name,
            "config_hash": config_hash(self.study),
            "seed": self.seed,
            "command": self.command,
            "variants": sorted(self.finished, key=[v.name for v in self.study.variants].index),
        }
        atomic.write(self.path / MANIFEST, dumps(manifest) + "\n")


def resolved(study: Study) -> dict[str, Any]:
    """The study with every field of every variant filled in."""
    variants: list[dict[str, Any]] = []
    for variant in study.variants:
        values = variant.experiment.model_dump(mode="json", exclude_none=True)
        calibration = values.pop("calibration")
        if variant.astra_text is not None:
            values["workload"]["astra_text"] = _input_name(variant.astra_text.encode(), ".txt")
        for traffic, (files, _) in zip(values["network"].get("background", []), _traffic(variant), strict=False):
            traffic.update(files)
        places = values["workload"].get("jobs", [values])
        for place, workload in zip(places, models_of(variant.experiment.workload), strict=False):
            if not workload.file.is_packaged:
                place["workload"]["model"] = _input_name(workload.file.content, ".yaml")
        if isinstance(variant.experiment.workload, GraphWorkload):
            values["workload"]["graph"] = _graph_name(variant.experiment.workload.file)
        if (table := variant.experiment.npu.compute.measured) is not None:
            values["npu"]["compute"]["table"] = _input_name(table.content, ".csv")
        if variant.experiment.topology.file is not None:
            values["topology"]["file"] = _topology_name(variant)
        values["collective"].pop("plan")
        if in_flight.left_open(variant.experiment.collective) == in_flight.BOTH:
            values["collective"].pop("inflight")  # it follows the fabric
        if content := getattr(getattr(variant.experiment.endpoint, "software", None), "content", b""):
            values["endpoint"]["software"] = _input_name(content, ".yaml")
        if names := [_plan_name(plan) for plan in variant.experiment.collective.plan]:
            values["collective"]["plan"] = names[0] if len(names) == 1 else names
        variants.append(values)
    return {"name": study.name, "description": study.description, "calibration": calibration, "variants": variants}


def resolved_yaml(study: Study) -> str:
    """The same as an experiment file."""
    content = resolved(study)
    if study.baseline:
        content = {"name": content.pop("name"), "baseline": study.baseline, **content}
    return yaml.dump(content, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)


class _Dumper(yaml.SafeDumper):
    """Quotes text that `document` would read as something else."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = None if isinstance(scalar(text), str) else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style)


_Dumper.add_representer(str, _represent_text)


def config_hash(study: Study) -> str:
    """A name for what was simulated: equal if and only if the resolved experiments are."""
    text = json.dumps(resolved(study), sort_keys=True)
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def read(path: Path) -> tuple[Document, dict[str, dict[str, pa.Table]], str]:
    """The document, the tables of each variant and the command of a run.

    Raises [`InputError`] with every file and field that is not what a run writes.
    """
    if not is_run(path):
        raise _refused(path, "this is not the directory of a run", "a directory that run --out has written")
    problems: list[Problem] = []
    manifest = _document(path / MANIFEST, documents.Manifest, problems)
    document = _document(path / "summary.json", documents.RunDocument, problems)
    variants: dict[str, dict[str, pa.Table]] = {}
    for name in manifest.get("variants", []):
        variants[name] = {}
        for file in _tables(path / name / "tables"):
            try:
                variants[name][file.stem] = parquet.read_of_run(file, str(file))
            except InputError as error:
                problems += error.problems
    if problems:
        raise InputError(problems)
    return document, variants, str(manifest.get("command", ""))


def _document(path: Path, model: type[documents.RunDocument | documents.Manifest], problems: list[Problem]) -> Document:
    """A document of a run; an empty one, and why, if it cannot be read."""
    try:
        return documents.read(inputs.read_bytes(path, str(path)), str(path), model)
    except InputError as error:
        problems += error.problems
        return {}


def _tables(folder: Path) -> list[Path]:
    try:
        return sorted(folder.glob("*.parquet"))
    except OSError:
        return []


def is_run(path: Path) -> bool:
    """Whether a run has been written here, even if its manifest is damaged by now."""
    try:
        return path.is_dir() and (path / MANIFEST).is_file()
    except (OSError, ValueError):
        return False


def is_meant(given: str | os.PathLike[str]) -> bool:
    """Whether the directory of a run is meant where an experiment could be as well, even if it is none."""
    path = Path(given)
    try:
        return is_run(path) or (path.is_dir() and os.fspath(given) not in studies.names())
    except (OSError, ValueError):
        return False


def _manifest(path: Path) -> dict[str, Any] | None:
    try:
        file = path / MANIFEST
        return documents.read(inputs.read_bytes(file, str(file)), str(file), documents.Manifest)
    except InputError:
        return None


def _inputs(variants: Sequence[Variant]) -> dict[str, bytes]:
    """The files that the variants name, by what they are called here."""
    texts = [v.astra_text.encode() for v in variants if v.astra_text is not None]
    found = {_input_name(text, ".txt"): text for text in texts}
    found |= {_plan_name(plan): plan.content for v in variants for plan in v.experiment.collective.plan}
    found |= {name: content for v in variants for _, files in _traffic(v) for name, content in files.items()}
    graphs = [v.experiment.workload.file for v in variants if isinstance(v.experiment.workload, GraphWorkload)]
    found |= {_graph_name(graph): graph.content for graph in graphs}
    tables = [table for v in variants if (table := v.experiment.npu.compute.measured) is not None]
    found |= {_input_name(table.content, ".csv"): table.content for table in tables}
    constants = [getattr(v.experiment.endpoint, "software", None) for v in variants]
    found |= {_input_name(of.content, ".yaml"): of.content for of in constants if of is not None and of.content}
    files = [workload.file for v in variants for workload in models_of(v.experiment.workload)]
    found |= {_input_name(file.content, ".yaml"): file.content for file in files if not file.is_packaged}
    return found | {_topology_name(v): v.experiment.topology.content for v in variants if v.experiment.topology.file}


def _traffic(variant: Variant) -> Iterator[tuple[dict[str, str], dict[str, bytes]]]:
    """For each of the traffic beside a run, the names of its files here by the field, and what is in these files."""
    for traffic in getattr(variant.experiment.network, "background", []):
        names: dict[str, str] = {}
        files: dict[str, bytes] = {}
        for key, suffix in (("sizes", ".csv"), ("matrix", ".cm")):
            content = getattr(getattr(traffic, key), "content", None)
            if content is not None:
                names[key] = _input_name(content, suffix)
                files[names[key]] = content
        yield names, files


def _topology_name(variant: Variant) -> str:
    fabric = variant.experiment.topology
    return _input_name(fabric.content, Path(fabric.file or "").suffix)


def _graph_name(graph: GraphFile) -> str:
    return _input_name(graph.content, ".cm" if Path(graph.file).suffix == ".cm" else ".json")


def _plan_name(plan: PlanFile) -> str:
    return _input_name(plan.content, Path(plan.file).suffix)


def _input_name(content: bytes, suffix: str) -> str:
    return f"inputs/{hashlib.sha256(content).hexdigest()[:16]}{suffix}"


def _refused(
    path: Path, message: str, accepted: str | None = "an empty or new directory, or that of a run"
) -> InputError:
    return InputError([Problem("command line", None, "directory", shown(str(path)), message, accepted)])
