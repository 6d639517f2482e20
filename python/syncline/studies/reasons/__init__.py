"""Why a run takes as long as it does: its critical path, what limits it, and what would help.

`seen` is a run as results tell it; `path` walks back through what an NPU did; `usage` says how busy everything was;
`limits` names what limits; `changes` are the experiments with one thing changed; `waterfall` compares two runs.
"""
