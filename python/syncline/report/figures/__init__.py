"""Drawings of figures."""
