"""The ledger of published figures, and the simulations that are held against them.

`claims.toml` says what was published and what counts as reproduced; `ledger` reads it; `ace` computes the
simulated values. A claim that comes out outside its range is reported as outside.
"""
