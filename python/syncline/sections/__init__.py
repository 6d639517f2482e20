"""The sections of an experiment as data: fields, units, defaults."""
