"""Hostile input, by the hundred thousand: whatever the command line and its files are, a command ends with one message.

    python -m tests.fuzz --cases 100000 --seed 7          # make fuzz
    python -m tests.fuzz --seed 7 --only report --case 4711    # one case again, with all that it says

A case is a command line with its files, made from a seed and a number by a generator: experiments from the schema,
mutated files of every format, damaged results, random command lines. It runs in a worker process with limits of time
and memory (`worker`), and what comes of it is judged by the contract of the command line (`verdict`): a status of
0, 1, 2 or 130, a message where there is no result, nothing on standard output beside one document, and neither
traceback nor panic, abort or hang.
"""
