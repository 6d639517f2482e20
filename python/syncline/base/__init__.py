"""Errors, units, documents with positions, files in and out, progress and interruption."""
