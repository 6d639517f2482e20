"""Parallelisation of models: graphs of classes and families, and memory by term. Nothing here knows of time."""
