"""The software model: how long a collective of NCCL takes on a known machine, as nccl-tests would measure it.

* `platform`: the machines, as far as this model looks at them
* `sizes`: the sizes of a table
* `wire`: steps and bytes of every algorithm, in closed form
* `mesh`: rings and direct messages of GPUs that are wired point to point
* `tuning`: NCCL's published estimate, by which it chooses between nodes
* `constants`: what is fitted and what is published, and the files that hold it
* `networks`: the kinds of networks between servers, and their constants
* `model`: `open_model` and `Model.predict`, the times
* `printing`: predicted times in the columns of nccl-tests
* `measurements`: reads what nccl-tests prints, and CSV
* `calibration`: fits constants to measured tables; hold-out and the plain fit beside it
* `selection`: what describes a table best, by sizes held out
* `measured`: what a class file keeps of a table beside constants
* `systems`: which tables each class of machines is fitted on
* `validation`: writes docs/validation.md
"""
