"""Search: which division of a training among NPUs is the fastest that fits into memory.

`file` reads a search, `space` lists its candidates with their memory, `predict` says what a candidate takes at least
and about (with `rates` of the fabric), `run` simulates the most promising ones, and `table` has a row for each.
"""
