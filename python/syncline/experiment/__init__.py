"""Experiment files: what their sections mean together, and what is wrong with them.

`load` reads a file with its variants, `merge` says how variants and `--set` change it, `rules` what fields mean
together, `effect` which of them act where, `explain` what is wrong with a value, at its place in the file, and
`packaged` has the studies that come with the package.
"""
