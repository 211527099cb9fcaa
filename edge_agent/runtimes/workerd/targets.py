"""Discovery: what an inspector lists, and where it may stand."""

from __future__ import annotations

import asyncio
import ipaddress
import re
from http import HTTPStatus

import aiohttp

ADDRESS = re.compile(r"^(?P<host>[0-9.]+|\[[0-9a-f:]+\]):(?P<port>\d{1,5})$")
LIST_BYTES = 4 << 20


def loopback(address: str) -> tuple[str, int]:
    """Host and port of an address that only this machine can reach.

    An inspector has no authentication and does not check where a page came from: anything but
    loopback hands the isolates to the network.

    Raises:
        ValueError: not ``IP:port``, or not a loopback address.
    """
    found = ADDRESS.match(address)
    if found is None or int(found["port"]) > 65535:
        raise ValueError(f"{address!r} is not a loopback IP address and port")
    host = found["host"].strip("[]")
    if not ipaddress.ip_address(host).is_loopback:
        raise ValueError(
            f"{address!r} is not on loopback; an inspector must never be reachable from elsewhere"
        )
    return host, int(found["port"])


async def listed(
    http: aiohttp.ClientSession, address: str, timeout_s: float
) -> frozenset[str] | None:
    """The services an inspector lists, or None when no inspector answers there."""
    try:
        async with asyncio.timeout(timeout_s), http.get(f"http://{address}/json") as answer:
            if answer.status != HTTPStatus.OK:
                return None
            if (answer.content_length or 0) > LIST_BYTES:
                return None
            entries = await answer.json(content_type=None)
    except (OSError, TimeoutError, ValueError, RecursionError, aiohttp.ClientError):
        return None
    if not isinstance(entries, list):
        return None
    ids = (entry.get("id") for entry in entries if isinstance(entry, dict))
    return frozenset(name for name in ids if isinstance(name, str))
