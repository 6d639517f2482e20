"""`syncline.detect`: the fabric of the machine at hand."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from syncline import _version
from syncline.base.errors import InputError
from syncline.commands.api import arguments, display, files
from syncline.commands.api.arguments import ARGUMENTS
from syncline.fabric.detected import Places
from syncline.fabric.detected import detect as detected

if TYPE_CHECKING:
    from syncline.commands.api.files import AnyPath
    from syncline.fabric.detected import Detected
    from syncline.results.entries import Document


def document(found: Detected) -> Document:
    """The document of `topology detect --json`."""

    return {
        **_version.versions(),
        "source": found.source,
        "gpus": list(found.gpus),
        "trees_links": found.links,
        "reason": found.reason,
        "notes": list(found.notes),
        "warnings": list(found.graph.warnings),
        "content": found.content,
    }


class Detection:
    """The fabric of the machine at hand."""

    def __init__(self, document: Document) -> None:
        self.document: Document = document
        """The document that `syncline topology detect --json` prints."""

    def __repr__(self) -> str:
        return f"<Detection by {self.source}: {display.counted(len(self.gpus), 'GPU')}>"

    def _repr_html_(self) -> str:
        cells = [["GPUs", ", ".join(map(str, self.gpus))], ["trees over", self.trees_links or "-"]]
        notes = [str(self.document["reason"]), *(f"not used: {note}" for note in self.document["notes"])]
        notes += self.document.get("warnings") or []
        return display.table(f"detected by {self.source}", ["", "value"], cells) + display.paragraphs(notes)

    @property
    def source(self) -> str:
        """What said what the fabric is."""
        return str(self.document["source"])

    @property
    def gpus(self) -> tuple[int, ...]:
        """The GPUs that are meant, by their numbers in the topology."""
        return tuple(self.document["gpus"])

    @property
    def trees_links(self) -> str | None:
        """The links over which trees are better than other algorithms; `None` if they are not."""
        found: str | None = self.document["trees_links"]
        return found

    @property
    def content(self) -> str:
        """The topology as the text of a file, which `topology_file` of other functions takes."""
        return str(self.document["content"])


@arguments.plain_arguments
def detect(
    gpus: str | Sequence[int] | None = None,
    *,
    nccl_file: AnyPath | None = None,
    nvidia_smi: str = "nvidia-smi",
    sys_root: AnyPath = "/sys",
) -> Detection:
    """Finds the fabric of the machine at hand: NCCL_TOPO_FILE, `nvidia-smi topo -m`, or the PCI devices in /sys.

    `gpus` are those that are meant, as PCI addresses (`"0000:07:00.0,..."`) or numbers; all if not given. `nccl_file`
    is NCCL's topology XML, by default what NCCL_TOPO_FILE names; `nvidia_smi` the command; `sys_root` where the file
    system of the kernel is.

    Raises [`InputError`] where nothing is found.
    """
    problems = arguments.no_text(nvidia_smi=nvidia_smi)
    members = arguments.listed(problems, "gpus", gpus, arguments.GPUS)
    topology = files.text_of(problems, nccl_file, "nccl_file")
    if sys_root is None:
        problems.append(ARGUMENTS.problem("sys_root", None, "no folder is given", "/sys, or a copy of it"))
    root = files.place_of(problems, sys_root, "sys_root", "a folder")
    if problems or root is None:
        raise InputError(problems)
    file = os.environ.get("NCCL_TOPO_FILE") if topology is None else topology
    with arguments.spelled(ARGUMENTS):
        return Detection(document(detected(members, Places(file, nvidia_smi, root))))
