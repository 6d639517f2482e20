"""Fabrics as graphs: machines, clusters of them, and topology files, described link by link.

`graph` is the description, `machines` builds the machines that are known by name, `files` reads those that are
written down, `allocation` says which NPUs take part, and `picture` draws what there is.
"""
