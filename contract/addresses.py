"""What a ``host:port`` says about where it leads."""

from __future__ import annotations

import ipaddress


def is_loopback(address: str) -> bool:
    """Whether an address can't leave this machine. A name can lead anywhere, except localhost."""
    host = address.rpartition(":")[0].strip("[]")
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
