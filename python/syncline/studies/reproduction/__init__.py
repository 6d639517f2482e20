"""The ledger of published figures, and the simulations that are held against them.

`claims.toml` says what was published and what counts as reproduced; `ledger` reads it; `ace`, `ace1` and `tutorial`
compute the simulated values, and `sources` knows them. A claim that comes out outside its range is reported as outside.
`experiments` changes one factor at a time, `confirm` compares folded with unfolded runs, `page` writes it all down.
"""
