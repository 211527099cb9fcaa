"""A gateway call over a connection that goes silent, and when each end notices."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import grpc
from grpc import aio

from contract import identity, rpc
from tests.integration.dropping_proxy import Proxy
from tests.integration.tls_scene import LOOPBACK, Halves

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

METHOD = "/test.Slow/Wait"


@dataclass(kw_only=True)
class HalfOpen:
    """Both ends of one call through a proxy; ``server_saw`` when the handler was cancelled."""

    proxy: Proxy
    channel: aio.Channel
    call: Any
    server_saw: asyncio.Event

    async def client_saw(self) -> aio.AioRpcError:
        """Wait for the client's end of the call."""
        try:
            await self.call
        except aio.AioRpcError as error:
            return error
        raise AssertionError("the call came through")


@contextlib.asynccontextmanager
async def half_open(scene: Halves) -> AsyncIterator[HalfOpen]:
    """Begin a call that would last for ever; its options are those of the product, TLS included."""
    entered, cancelled = asyncio.Event(), asyncio.Event()

    async def wait(request: bytes, context: Any) -> bytes:
        entered.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return b""

    server = rpc.server()
    handler = grpc.method_handlers_generic_handler(
        "test.Slow", {"Wait": grpc.unary_unary_rpc_method_handler(wait)}
    )
    server.add_generic_rpc_handlers((handler,))
    port = rpc.bind(server, LOOPBACK, scene.control_plane)
    await server.start()
    async with Proxy(f"127.0.0.1:{port}").listening() as proxy:
        channel = rpc.secure_channel(proxy.address, scene.agent.current, identity.CONTROL_PLANE)
        call: Any = channel.unary_unary(METHOD, None, None)(b"", timeout=300)
        calling = asyncio.ensure_future(call)
        await entered.wait()
        try:
            yield HalfOpen(proxy=proxy, channel=channel, call=calling, server_saw=cancelled)
        finally:
            calling.cancel()
            await asyncio.gather(calling, return_exceptions=True)
            await channel.close(None)
            await server.stop(0)
