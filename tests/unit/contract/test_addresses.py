from __future__ import annotations

import pytest

from contract.addresses import is_loopback


@pytest.mark.parametrize("address", ["127.0.0.1:1", "127.9.0.1:1", "[::1]:1", "localhost:1"])
def test_stays_on_this_machine(address: str) -> None:
    assert is_loopback(address)


@pytest.mark.parametrize(
    "address",
    ["0.0.0.0:1", "[::]:1", "10.0.0.1:1", "metal:1", "localhost.example:1", "", "127.0.0.1.x:1"],
)
def test_may_leave_this_machine(address: str) -> None:
    assert not is_loopback(address)
