"""Figures of studies: what sweeps and runs say, drawn beside what was published.

`file` reads a figure, `values` makes the numbers of its panels from the tables of sweeps and runs, `draw` draws them
(SVG and PNG, by matplotlib), and `page` puts drawing, numbers and published values on one self-contained page.
"""
