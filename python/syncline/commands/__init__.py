"""The commands, from Python and from a terminal."""
