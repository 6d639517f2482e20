"""Every JSON Schema that `syncline schema` prints: of the files that commands read, and of the documents they print."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from syncline.commands import printed, printed_fabrics
from syncline.experiment import export
from syncline.models import export as model_schema
from syncline.plans import plan_form
from syncline.results import documents
from syncline.sections import graph_file
from syncline.studies import answers
from syncline.studies.figures import export as figure_schema
from syncline.studies.searches import file
from syncline.studies.sweeps import export as sweep_schema

Schema = dict[str, Any]


FILES: Final[dict[str, Callable[[], Schema]]] = {
    "experiment": export.json_schema,
    "sweep": sweep_schema.json_schema,
    "search": file.json_schema,
    "figure": figure_schema.json_schema,
    "plan": plan_form.json_schema,
    "graph": graph_file.json_schema,
    "model": model_schema.json_schema,
}
"""Of the files that commands read, by what they are."""
DOCUMENTS: Final[dict[str, tuple[str, type[documents.Part]]]] = {
    "run": ("run", documents.RunDocument),
    "check": ("check", printed.CheckDocument),
    "explain": ("explain", answers.ExplainDocument),
    "diff": ("diff", answers.DiffDocument),
    "fit": ("fit", printed.FitDocument),
    "search-results": ("search", printed.SearchDocument),
    "sweep-results": ("sweep", printed.SweepDocument),
    "figure-results": ("figure", printed.FigureDocument),
    "collective": ("collective", printed.CollectiveDocument),
    "bench": ("bench", printed.BenchDocument),
    "calibrate": ("calibrate", printed.CalibrateDocument),
    "measure": ("measure", printed.MeasureDocument),
    "reproduce": ("reproduce", printed.ReproduceDocument),
    "trees": ("trees", printed_fabrics.TreesDocument),
    "verify": ("verify", printed.VerifyDocument),
    "export": ("export", printed.ExportDocument),
    "export-trace": ("export-trace", printed.ExportTraceDocument),
    "import": ("import", printed.ImportDocument),
    "report": ("report", printed.ReportDocument),
    "topology-show": ("topology show", printed_fabrics.TopologyShowDocument),
    "topology-detect": ("topology detect", printed_fabrics.TopologyDetectDocument),
    "list": ("list", printed.ListDocument),
    "init": ("init", printed.InitDocument),
    "completion": ("completion", printed.CompletionDocument),
}
"""Of what each command prints with `--json`: by the name of the schema, the command and its document. A command whose
name is also that of a file that it reads has `-results` behind it.
"""
OTHERS: Final[dict[str, type[documents.Part]]] = {"errors": printed.ErrorsDocument, "manifest": documents.Manifest}
"""Of what all commands print where their input is wrong, and of `manifest.json` in the directory of a run."""


def _of_document(document: type[documents.Part], of: str) -> Callable[[], Schema]:
    return lambda: documents.schema_of(document, of)


SCHEMAS: Final[dict[str, Callable[[], Schema]]] = {
    **FILES,
    **{name: _of_document(document, command) for name, (command, document) in DOCUMENTS.items()},
    **{name: _of_document(document, name) for name, document in OTHERS.items()},
}
"""All of them by name."""
