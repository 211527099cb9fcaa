"""The vocabulary of faults is closed, and each edge's table covers it."""

from __future__ import annotations

import grpc

from contract.faults import KIND_OF, Fault, Kind, Reason
from contract.rpc import CODE_OF


def test_every_reason_is_of_one_kind() -> None:
    assert set(KIND_OF) == set(Reason)


def test_every_kind_has_a_reason() -> None:
    assert set(KIND_OF.values()) == set(Kind)


def test_every_kind_has_its_own_status_on_the_wire() -> None:
    assert set(CODE_OF) == set(Kind)
    assert len(set(CODE_OF.values())) == len(Kind)
    assert grpc.StatusCode.OK not in CODE_OF.values()


def test_a_fault_tells_its_kind_and_message() -> None:
    fault = Fault(Reason.ISOLATES_BUSY, "held", retry_after_s=3)
    assert (fault.kind, str(fault), fault.retry_after_s) == (Kind.BUSY, "held", 3)
