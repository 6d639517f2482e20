"""Spanning trees for collectives on a machine, after Blink (MLSys 2020): optimal rates, few trees, plans.

`question` makes a network of a machine, `packing` asks the engine (`crates/packing`) for its rates and trees,
`fewest` replaces trees by as few as possible, and `plan` writes them down as steps.
"""
