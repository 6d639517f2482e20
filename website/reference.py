"""A hook of MkDocs: reference pages, made of what the code declares when the site is built."""

from __future__ import annotations

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from lab import reference


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages."""
    for path, text in reference.pages().items():
        files.append(File.generated(config, path, content=text))
    return files
