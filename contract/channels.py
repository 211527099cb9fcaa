"""Channels to peers, each remade when this process's certificates changed."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING

import structlog

from contract import rpc
from contract.addresses import is_loopback
from contract.faults import Fault, Reason

if TYPE_CHECKING:
    from grpc import aio

    from contract.certificates import Certificates, Material

log = structlog.get_logger(__name__)


class Channels:
    """One channel per peer. What is still under way on a replaced one ends there.

    Args:
        certificates: None for plain text, which reaches loopback addresses alone.
        most: above it the channel used longest ago is closed.
        drain_s: how long a call may still take on a channel that was replaced.
    """

    def __init__(self, certificates: Certificates | None, *, most: int, drain_s: float) -> None:
        self._certificates = certificates
        self._most = most
        self._drain_s = drain_s
        self._open: OrderedDict[tuple[str, str], tuple[aio.Channel, Material | None]] = (
            OrderedDict()
        )
        self._closing: set[asyncio.Task[None]] = set()

    def to(self, address: str, peer: str) -> aio.Channel:
        """Return the channel to a peer.

        Args:
            address: ``host:port``.
            peer: the name its certificate must carry, whatever the address is.

        Raises:
            Fault: peer_forbidden for an address off this machine in plain text.
        """
        material = self._certificates.current if self._certificates is not None else None
        held = self._open.pop((address, peer), None)
        if held is not None and held[1] is not material:
            self._close_later(held[0])
            held = None
        if held is None:
            held = (self._made(address, peer, material), material)
        self._open[address, peer] = held
        if len(self._open) > self._most:
            _, (oldest, _) = self._open.popitem(last=False)
            self._close_later(oldest)
        return held[0]

    async def close(self) -> None:
        """Close every channel at once."""
        while self._open:
            _, (channel, _) = self._open.popitem()
            await channel.close(None)
        for task in self._closing:
            task.cancel()
        await asyncio.gather(*self._closing, return_exceptions=True)

    @staticmethod
    def _made(address: str, peer: str, material: Material | None) -> aio.Channel:
        if material is not None:
            return rpc.secure_channel(address, material, peer)
        if not is_loopback(address):
            log.error("plaintext_refused", address=address)
            raise Fault(Reason.PEER_FORBIDDEN, "Plain text is for loopback addresses alone.")
        return rpc.channel(address)

    def _close_later(self, channel: aio.Channel) -> None:
        task = asyncio.create_task(self._drained(channel))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _drained(self, channel: aio.Channel) -> None:
        try:
            await channel.close(self._drain_s)
        finally:
            await channel.close(None)
