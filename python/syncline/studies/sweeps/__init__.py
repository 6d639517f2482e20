"""Sweeps: one experiment, or several, for all combinations of values of their fields.

`file` reads a sweep, `points` makes experiments of its points and has all of them validated, `pool` simulates them
on all processors, `journal` keeps what is finished, and `table` has a row for each.
"""
