"""Executes the notebooks of the documentation, and compares their outputs with those that are stored."""
