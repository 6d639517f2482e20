"""What is given to users: source distributions and wheels, their content, their metadata, and whether they work.

    python -m tests.distribution dist          # make wheels: all that is in a folder

`make test` packs the engine that is built already, and tests that (`test_packages.py`): everything but the tag of the
platform and what is linked, which only `make wheels` decides.
"""
