"""Files that others read: CITATION.cff, and what a container is built from. Neither can be tried out here."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, Final

import yaml

import syncline

from . import archives
from .archives import ROOT

# The Citation File Format, version 1.2.0 (schema-guide.md of its specification): what may stand where, of all that is
# in use here.
SOFTWARE: Final = frozenset(
    [
        "abstract",
        "authors",
        "cff-version",
        "commit",
        "contact",
        "date-released",
        "doi",
        "identifiers",
        "keywords",
        "license",
        "license-url",
        "message",
        "preferred-citation",
        "references",
        "repository",
        "repository-artifact",
        "repository-code",
        "title",
        "type",
        "url",
        "version",
    ]
)
REFERENCE: Final = frozenset(
    [
        "abbreviation",
        "abstract",
        "authors",
        "collection-title",
        "conference",
        "doi",
        "editors",
        "end",
        "isbn",
        "issn",
        "issue",
        "journal",
        "month",
        "notes",
        "pages",
        "publisher",
        "section",
        "start",
        "title",
        "type",
        "url",
        "volume",
        "year",
    ]
)
KINDS: Final = frozenset({"article", "conference-paper", "report", "software", "thesis"})
PERSON: Final = frozenset({"affiliation", "alias", "family-names", "given-names", "name-particle", "orcid", "website"})
ENTITY: Final = frozenset({"address", "alias", "city", "country", "name", "website"})


def citation_problems(found: Any) -> list[str]:
    """What the format does not permit."""
    problems = [f"{key}: missing" for key in ("authors", "cff-version", "message", "title") if not found.get(key)]
    problems += [f"{key}: not known" for key in found.keys() - SOFTWARE]
    if found.get("cff-version") != "1.2.0" or found.get("type") not in ("software", "dataset"):
        problems.append("cff-version, type: others are expected")
    if not all(isinstance(word, str) for word in found.get("keywords", ())):
        problems.append("keywords: a list of texts is expected")
    problems += _authors_problems(found.get("authors"), "authors")
    for i, reference in enumerate(found.get("references", ())):
        place = f"references.{i}"
        problems += [f"{place}.{key}: missing" for key in ("authors", "title", "type") if not reference.get(key)]
        problems += [f"{place}.{key}: not known" for key in reference.keys() - REFERENCE]
        if reference.get("type") not in KINDS:
            problems.append(f"{place}.type: {reference.get('type')}")
        if not isinstance(reference.get("year", 2000), int) or not isinstance(reference.get("start", 1), int | str):
            problems.append(f"{place}: year and start are numbers")
        problems += _authors_problems(reference.get("authors"), f"{place}.authors")
    return problems


def _authors_problems(authors: Any, place: str) -> list[str]:
    """A person has a family name, an entity a name; neither has keys of the other."""
    if not isinstance(authors, list) or not authors:
        return [f"{place}: a list of authors is expected"]
    return [
        f"{place}.{i}: {sorted(author)}"
        for i, author in enumerate(authors)
        if not (author.keys() <= PERSON or (author.keys() <= ENTITY and "name" in author))
    ]


def test_the_citation_is_legal_and_of_this_version() -> None:
    found = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation_problems(found) == []
    project = archives.project_table()
    assert (found["version"], found["license"]) == (syncline.__version__, project["license"])
    assert [author["name"] for author in found["authors"]] == [author["name"] for author in project["authors"]]
    assert len(found["references"]) == 3
    found["references"][0]["typ"] = found["references"][0].pop("type")
    found["authors"].append({"nom": "X"})
    assert citation_problems(found | {"colour": "blue", "message": ""}) == [
        "message: missing",
        "colour: not known",
        "authors.1: ['nom']",
        "references.0.type: missing",
        "references.0.typ: not known",
        "references.0.type: None",
    ]


def instructions() -> list[tuple[str, str]]:
    """The instructions of the container file, with lines that go on joined."""
    text = (ROOT / "Containerfile").read_text(encoding="utf-8")
    lines = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)).splitlines()
    found = [line.split(maxsplit=1) for line in lines if line.strip()]
    return [(name, rest) for name, rest in found]


def test_the_container_copies_what_there_is_and_what_the_sources_need() -> None:
    copied = [word for name, rest in instructions() if name == "COPY" for word in rest.split()[:-1]]
    of_context = [word for word in copied if not word.startswith(("--from", "/"))]
    assert of_context
    for word in of_context:
        assert (ROOT / word).exists(), word
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert set(of_context) == kept
    manifest = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert {manifest["project"]["readme"], *manifest["project"]["license-files"]} <= kept


def test_the_container_has_the_versions_of_the_project() -> None:
    found = instructions()
    bases = [rest for name, rest in found if name == "FROM"]
    assert len(bases) == 2
    rust, python = (tuple(map(int, re.findall(r":(\d+)\.(\d+)", base)[0])) for base in bases)
    manifests = [tomllib.loads((ROOT / name).read_text()) for name in ("Cargo.toml", "pyproject.toml")]
    assert rust >= tuple(map(int, manifests[0]["workspace"]["package"]["rust-version"].split(".")))
    project = manifests[1]["project"]
    assert python >= tuple(map(int, project["requires-python"].removeprefix(">=").split(".")))
    text = "\n".join(rest for _, rest in found)
    assert f'"{manifests[1]["build-system"]["requires"][0]}"' in text
    (entry,) = [json.loads(rest) for name, rest in found if name == "ENTRYPOINT"]
    assert set(entry) <= set(project["scripts"])
    names = [name for name, _ in found]
    assert names.index("USER") < names.index("ENTRYPOINT")
    assert dict(found)["USER"] != "root"


def test_the_commands_of_the_container_exist(tmp_path: Path) -> None:
    """Shells can read them, and the tools know their options; that of pip is that of the test of wheels."""
    runs = [rest for name, rest in instructions() if name == "RUN"]
    assert len(runs) >= 4
    for run in runs:
        subprocess.run(["sh", "-n", "-c", run], check=True)
    words = "\n".join(runs)
    tools = {
        (str(Path(sys.executable).with_name("maturin")), "build"): re.findall(r"maturin build (.*)", words),
        ("cargo", "build"): re.findall(r"cargo build (.*?) &&", words),
    }
    for (tool, command), lines in tools.items():
        assert lines, tool
        helped = subprocess.run([tool, command, "--help"], capture_output=True, text=True, cwd=tmp_path, check=True)
        for flag in re.findall(r"(?<!\S)--[a-z-]+", lines[0]):
            assert flag in helped.stdout, flag


def test_the_versions_of_tools_for_wheels_are_those_of_the_project() -> None:
    files = ("requirements.txt", "requirements-wheels.txt")
    pinned = [dict(re.findall(r"^([\w-]+)==(\S+)$", (ROOT / name).read_text(), re.MULTILINE)) for name in files]
    assert pinned[1]["maturin"] == pinned[0]["maturin"]


def test_the_page_on_installing_says_what_the_packages_need() -> None:
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    project = archives.project_table()
    builder = (ROOT / "release" / "wheels.py").read_text(encoding="utf-8")
    glibc = re.findall(r'^GLIBC: Final = "(.*)"$', builder, re.MULTILINE)[0]
    rust = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["rust-version"]
    for said in (f"Python {project['requires-python'].removeprefix('>=')}", f"glibc {glibc}", f"Rust {rust}"):
        assert said in page
    assert tuple(map(int, glibc.split("."))) == archives.MANYLINUX["manylinux2014"]
    for extra in project["optional-dependencies"]:
        assert re.search(rf"\b{extra}\b", page), extra
