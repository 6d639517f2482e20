"""The experiment file: its fields, defaults and rules.

`experiment` has the fields and every default, `rules` what fields mean together, `merge` how variants and
`--set` change a file, `explain` how a violation is said, and `load` puts them together.
"""
