"""Whether the process on a port is still the one it was: the kernel's number of its listener.

The inspector protocol names no process, and a restart may be over between two looks.
"""

from __future__ import annotations

import socket
import struct
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
LISTENING = "0A"

# Numbers of the kernel's socket diagnostics (sock_diag(7)).
_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_REQUEST_DUMP = 0x301
_ERROR, _DONE = 2, 3
_LISTEN_ONLY = 1 << 10
_HEADER = struct.Struct("=IHHII")
_ASKED = struct.Struct("=BBBBI48x")
# Of an answer: the port after four small fields, the socket's number at the end.
_PORT = struct.Struct("!4xH")
_NUMBER = struct.Struct("=68xI")
_ANSWER_S = 0.1


def listener(port: int) -> str:
    """Return what tells one process listening on a port from the next; empty when none is known.

    Where the kernel does not say, only an isolate that is seen to be gone counts as gone.
    """
    try:
        numbers = dict(_asked())
    except (OSError, AttributeError, struct.error):
        return in_tables(port, TABLES)
    return str(numbers.get(port, ""))


def in_tables(port: int, tables: Iterable[str]) -> str:
    """Find it in the kernel's tables of all connections, which take milliseconds to read."""
    for table in tables:
        try:
            lines = Path(table).read_text(encoding="ascii").splitlines()[1:]
        except (OSError, ValueError):
            continue
        for line in lines:
            columns = line.split()
            if columns[3] == LISTENING and int(columns[1].rpartition(":")[2], 16) == port:
                return columns[9]
    return ""


def _asked() -> Iterator[tuple[int, int]]:
    """Yield port and number of every listener; the kernel looks at listeners alone."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _NETLINK_SOCK_DIAG) as kernel:
        kernel.settimeout(_ANSWER_S)
        for family in (socket.AF_INET6, socket.AF_INET):
            body = _ASKED.pack(family, socket.IPPROTO_TCP, 0, 0, _LISTEN_ONLY)
            size = _HEADER.size + len(body)
            kernel.send(_HEADER.pack(size, _SOCK_DIAG_BY_FAMILY, _REQUEST_DUMP, 1, 0) + body)
            while True:
                found, more = _read(kernel.recv(1 << 16))
                yield from found
                if not more:
                    break


def _read(data: bytes) -> tuple[list[tuple[int, int]], bool]:
    found: list[tuple[int, int]] = []
    at = 0
    while at < len(data):
        size, kind, *_ = _HEADER.unpack_from(data, at)
        if kind == _DONE:
            return found, False
        if kind == _ERROR or size < _HEADER.size:
            raise OSError("the kernel does not tell its listeners")
        body = at + _HEADER.size
        found.append((_PORT.unpack_from(data, body)[0], _NUMBER.unpack_from(data, body)[0]))
        at += (size + 3) & ~3
    return found, True
