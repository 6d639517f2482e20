"""Plans in files: reading, writing and verifying them.

A schedule is written out step by step; it is held as the JSON that the engine reads (`plan`), and `msccl_xml` and
`msccl_write` read and write MSCCL's XML, `mscclpp` the execution plans of MSCCL++. In a plan of version 2, whole
algorithms are written down (`plan_form`). `load` reads a file of any format, `verification` asks the engine what is
wrong with it, `planned` is a plan in the place of an algorithm, and `ring` makes a schedule to begin with.
"""
