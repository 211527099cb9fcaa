"""How many event streams a replica serves: each is small, and all together are bounded."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from contract.faults import Fault, Reason

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(kw_only=True)
class Streams:
    """How many event streams one replica serves, in all and to one account."""

    most: int
    most_per_account: int
    _open: Counter[str] = field(default_factory=Counter)

    def open(self, account_id: str) -> int:
        """How many an account has open."""
        return self._open[account_id]

    @contextmanager
    def one(self, account_id: str) -> Iterator[None]:
        """Count one stream for as long as the block lasts.

        Raises:
            Fault: streams_full, naming the limit.
        """
        if self._open[account_id] >= self.most_per_account:
            raise _full(f"An account may have {self.most_per_account} event streams open at once.")
        if self._open.total() >= self.most:
            raise _full(f"This replica serves no more than {self.most} event streams at once.")
        self._open[account_id] += 1
        try:
            yield
        finally:
            self._open[account_id] -= 1
            if not self._open[account_id]:
                del self._open[account_id]


def _full(message: str) -> Fault:
    return Fault(Reason.STREAMS_FULL, message)
