"""The Ethernet backend against ns-3.

`rows.csv` has what ns-3.37 gives for collectives on hosts around one switch: facts that were measured with a program of
its own, which is no part of Syncline. `runs` simulates the same with the profile `ns3-3.37`, `page` compares.
`python -m lab.ns3 --record` keeps the outcome in `record.csv`, from which docs/validation.md has its table.
"""
