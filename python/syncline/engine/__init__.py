"""Runs of experiments: descriptions for the engine, choices that are left open, results."""
