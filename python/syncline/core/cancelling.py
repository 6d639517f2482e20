"""How a program ends what it has started and no longer wants."""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncline.base.errors import CancelledError
from syncline.core import binding

if TYPE_CHECKING:
    from syncline.core import _core


class Cancellation:
    """Ends what it was given to, from whatever thread.

        cancel = syncline.Cancellation()
        threading.Timer(60, cancel.cancel).start()
        syncline.run("ace/resnet50", cancel=cancel)     # raises CancelledError after a minute

    It may be given to any number of functions, which all end when it is called, and from then on do not begin.
    A simulation ends within a few hundredths of a second, wherever it is; what is set up before its first event is
    finished behind the scenes. An experiment that is being read is read to the end before, where the first call of a
    process takes seconds to load modules.
    """

    __slots__ = ("_flag",)

    def __init__(self) -> None:
        binding.require()
        from syncline.core import _core

        self._flag = _core.Cancellation()

    def __repr__(self) -> str:
        return f"<Cancellation{': called' if self.cancelled else ''}>"

    def __reduce__(self) -> tuple[type[Cancellation], tuple[()]]:
        """In another process it is one that is never called: whoever started that process ends it."""
        return (Cancellation, ())

    def cancel(self) -> None:
        """Ends everything that has this, now and from now on. It may be called more than once."""
        self._flag.cancel()

    @property
    def cancelled(self) -> bool:
        """Whether it has been called."""
        return self._flag.cancelled

    def raise_if_cancelled(self) -> None:
        """Raises [`CancelledError`] if it has been called."""
        if self.cancelled:
            raise CancelledError

    def _monitor(self) -> _core.Monitor:
        from syncline.core import _core

        return _core.Monitor(self._flag)


def monitor(cancel: Cancellation | None) -> _core.Monitor:
    """What sees how far a simulation is and can end it, as `cancel` does if it is given."""
    if cancel is not None:
        return cancel._monitor()
    binding.require()
    from syncline.core import _core

    return _core.Monitor()


def check(cancel: Cancellation | None) -> None:
    """Raises [`CancelledError`] if what may end this has been called."""
    if cancel is not None:
        cancel.raise_if_cancelled()
