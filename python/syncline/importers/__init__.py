"""Foreign traces and workloads as graph files, and the graphs of runs as foreign traces.

An importer is a module with the name of its format. It reads files into `traces.Trace`s, one for each NPU, which
`assemble` turns into the classes and families of a graph file; `output` writes that with an experiment beside it. No
module here knows how graphs are run.
"""
