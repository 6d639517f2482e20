"""Collective schedules that are written out step by step: reading, writing and verifying them.

A schedule is held as its plan, the JSON that the engine reads (`plan`). `msccl` reads and writes MSCCL's
XML, `ring` makes a schedule to begin with, `verification` asks the engine what is wrong with one.
"""
