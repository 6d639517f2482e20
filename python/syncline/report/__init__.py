"""What a person looks at after a run: the HTML report and the trace for Perfetto.

Both are pure functions of results: `html.build` makes one self-contained page of a whole study,
`traces.build` makes the trace of one of its variants. Neither reads or writes files.
"""
