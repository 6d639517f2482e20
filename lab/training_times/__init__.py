"""Iteration times of training against public measurements, as Syncline answers by default.

`tables` has what was measured, with sources; `recipes.yaml` what the sources state of their software. `points` makes an
experiment of a row, `parts` fits what errors of one source have in common, `page` makes the section of
docs/validation.md. `python -m lab.training_times --record` simulates all rows and keeps the outcome in `record.csv`,
which the section is made of, and in `changes.csv` what comes of some rows with something changed; `--fit` searches the
one fitted number of the recipes again.
"""
