"""Runs what pages of the documentation show: `page` reads them, `shell` runs commands, `run` compares."""
