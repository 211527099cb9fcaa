"""Both ways to ask the kernel who listens agree, and tell one listener from the next."""

from __future__ import annotations

import socket

from edge_agent.runtimes.workerd.listeners import TABLES, in_tables, listener


def _listening(port: int = 0) -> socket.socket:
    opened = socket.socket()
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    opened.bind(("127.0.0.1", port))
    opened.listen()
    return opened


def test_a_restart_on_the_same_port_is_seen() -> None:
    with _listening() as first:
        port = first.getsockname()[1]
        before = listener(port)
        assert before == in_tables(port, TABLES) != ""
    assert listener(port) == ""
    with _listening(port):
        assert listener(port) not in {"", before}
