"""`torch.distributed` on Syncline's collective library, for tensors in the memory of the host.

    import syncline.torch
    torch.distributed.init_process_group("syncline")

Importing this module registers the backend.
"""

try:
    from syncline.torch.process_group import SynclineProcessGroup, register
except ModuleNotFoundError as error:
    if error.name != "torch":  # there is one, which is not whole
        raise
    message = "PyTorch is not installed: syncline.torch needs it (see pytorch.org, 'Get Started')"
    raise ModuleNotFoundError(message, name=error.name) from None

__all__ = ["SynclineProcessGroup"]

register()
