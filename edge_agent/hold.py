"""Claims on isolates: at most one capture per isolate, and so many on the metal."""

from __future__ import annotations

from dataclasses import dataclass

from contract.faults import Fault, Reason

# A hold that outlives its estimate is being wound up: it ends soon, not at once.
WINDING_UP_MS = 500


@dataclass(frozen=True, kw_only=True)
class Hold:
    """One isolate claimed.

    Args:
        ends_at_ms: expected to be free then, on the monotonic clock.
        counted: uses up capacity of the metal.
        yields: ends at once when a capture wants the isolate, so it counts as free.
    """

    isolate_id: str
    ends_at_ms: int
    counted: bool
    yields: bool


class Holds:
    """Who holds what. Taking is one step without an await, so two orders can't take one isolate.

    Args:
        capacity: counted holds there may be at once.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._held: dict[str, Hold] = {}

    def take(
        self,
        isolate_id: str,
        now_ms: int,
        for_ms: int,
        *,
        counted: bool = True,
        yields: bool = False,
    ) -> Hold:
        """Claim an isolate for about this long.

        Args:
            counted: False for the holds of the agent itself, which use up no capacity.
            yields: True for a hold that whoever took it gives up when asked to make way.

        Raises:
            Fault: isolates_busy, with the time until it is free.
        """
        held = self._held.get(isolate_id)
        if held is not None:
            raise busy("The isolate is being captured.", _left_ms(held, now_ms))
        if counted and self.full:
            raise busy("This metal takes no more captures now.", self.first_end_ms(now_ms))
        hold = Hold(
            isolate_id=isolate_id, ends_at_ms=now_ms + for_ms, counted=counted, yields=yields
        )
        self._held[isolate_id] = hold
        return hold

    def release(self, hold: Hold) -> None:
        """Free the isolate. A second time, or after somebody else took it, nothing happens."""
        if self._held.get(hold.isolate_id) is hold:
            del self._held[hold.isolate_id]

    @property
    def full(self) -> bool:
        """True when this metal is at its capacity."""
        return sum(hold.counted for hold in self._held.values()) >= self._capacity

    def held_ms(self, isolate_id: str, now_ms: int) -> int:
        """How long the isolate is still held; 0 when it is free."""
        hold = self._held.get(isolate_id)
        return _left_ms(hold, now_ms) if hold and not hold.yields else 0

    def first_end_ms(self, now_ms: int) -> int:
        """Until the first of the counted holds ends; 0 when there is none."""
        left = (_left_ms(hold, now_ms) for hold in self._held.values() if hold.counted)
        return min(left, default=0)


def busy(message: str, free_in_ms: int) -> Fault:
    """The fault of an order that must wait."""
    return Fault(Reason.ISOLATES_BUSY, message, retry_after_s=free_in_ms / 1000)


def _left_ms(hold: Hold, now_ms: int) -> int:
    left = hold.ends_at_ms - now_ms
    return left if left > 0 else WINDING_UP_MS
