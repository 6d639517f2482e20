"""The Python interface, on which the command line is written: ARCHITECTURE.md, "The Python interface".

`import syncline` offers what is public of it. A module here has a function for programs, which takes values and returns
or raises objects, above one that does the work for programs and for the command line alike.
"""
