"""Iteration times of GPT training against public measurements.

`tables` has what was measured, with sources; `a100.yaml` the machine, the compute model and every constant, with the
points that the fitted ones were fitted on. `points` makes an experiment of a row, `page` the section of
docs/validation.md. `python -m lab.training_times --record` simulates all rows and keeps the outcome in
`record.csv`, which the section is made of, and in `changes.csv` what comes of some rows with parts of the model left
out or put in; `--fit` fits again.
"""
