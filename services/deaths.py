"""A child that ends with its parent, however the parent ends."""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import signal
    from collections.abc import Callable

_PR_SET_PDEATHSIG = 1
# Loaded here: between fork and exec nothing may be loaded.
_LIBC = ctypes.CDLL(None, use_errno=True)


def end_with_parent(sig: signal.Signals) -> Callable[[], None]:
    """Return a ``preexec_fn``: the child is sent ``sig`` when its parent's thread ends."""
    parent = os.getpid()

    def between_fork_and_exec() -> None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, int(sig), 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return between_fork_and_exec
