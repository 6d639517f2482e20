"""The binding of the engine, what it says of itself, and its raw refusals."""
