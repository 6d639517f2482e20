"""Documents, tables, traces and directories of results."""
