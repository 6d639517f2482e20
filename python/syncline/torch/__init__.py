"""`torch.distributed` on Syncline's collective library, for tensors in the memory of the host.

    import syncline.torch
    torch.distributed.init_process_group("syncline")

Importing this module registers the backend.
"""

from syncline.torch.process_group import SynclineProcessGroup, register

__all__ = ["SynclineProcessGroup"]

register()
