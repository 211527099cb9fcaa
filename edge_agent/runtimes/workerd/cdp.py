"""One websocket session with an inspector: commands, each answered or failed within its time.

Transport only. Big replies are handed on as bytes: which command one answers stands in its first
few characters.
"""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Literal

import aiohttp

from contract.faults import Fault, Reason

if TYPE_CHECKING:
    from collections.abc import Mapping

    from edge_agent.runtime import Clock

CLOSE_S = 1.0
# A reply above this can only be a profile: it is not parsed here.
SMALL_BYTES = 65536
REPLY = re.compile(rb'\s*\{\s*"id"\s*:\s*(\d{1,15})\s*[,}]')
UNKNOWN_METHOD = -32601


@dataclass(frozen=True, kw_only=True)
class Command:
    """A method and its parameters."""

    method: str
    params: Mapping[str, object] | None = None


@dataclass(frozen=True, kw_only=True)
class Reply:
    """The whole reply as it came, and when: microseconds on the monotonic clock."""

    data: bytes
    sent_us: int
    received_us: int


class Cdp:
    """A session. ``connect`` makes one; ``close`` ends it, whatever state it is in."""

    def __init__(
        self, socket: aiohttp.ClientWebSocketResponse[Literal[False]], clock: Clock
    ) -> None:
        self._socket = socket
        self._clock = clock
        self._sent = 0
        self._pending: dict[int, asyncio.Future[tuple[bytes, int]]] = {}
        self._cut: Fault | None = None
        self._closed = asyncio.Event()
        self._reader = asyncio.create_task(self._read())

    @property
    def cut(self) -> Fault | None:
        """Why the session ended without being asked to."""
        return self._cut

    async def closed(self) -> None:
        """Return once the session is over."""
        await self._closed.wait()

    async def command(self, *commands: Command, timeout_s: float) -> tuple[Reply, ...]:
        """Send all commands back to back, then wait for every reply.

        The runtime works off what has arrived under one acquisition of the isolate's lock.

        Raises:
            Fault: ``runtime_timeout``, ``inspector_lost``, ``profile_too_large``, and
                ``runtime_unsupported`` when the runtime answers with an error.
        """
        waiting: list[asyncio.Future[tuple[bytes, int]]] = []
        first = self._sent + 1
        try:
            async with asyncio.timeout(timeout_s):
                sent_us = self._now_us()
                for command in commands:
                    waiting.append(await self._send(command))  # noqa: PERF401 - kept when one fails
                answers = [await future for future in waiting]
        except TimeoutError:
            names = ", ".join(command.method for command in commands)
            raise Fault(
                Reason.RUNTIME_TIMEOUT, f"the runtime did not answer {names} in {timeout_s:g} s"
            ) from None
        finally:
            for number in range(first, self._sent + 1):
                self._pending.pop(number, None)
            for future in waiting:
                if not future.cancel() and not future.cancelled():
                    # An unread failure would be reported when it is collected.
                    _ = future.exception()
        return tuple(
            Reply(data=_checked(command, data), sent_us=sent_us, received_us=at_us)
            for command, (data, at_us) in zip(commands, answers, strict=True)
        )

    async def close(self) -> None:
        """End the session; a runtime too busy to agree is not waited for."""
        self._reader.cancel()
        await asyncio.gather(self._reader, return_exceptions=True)
        await self._socket.close()

    def _now_us(self) -> int:
        return self._clock.monotonic_ns() // 1000

    async def _send(self, command: Command) -> asyncio.Future[tuple[bytes, int]]:
        if self._closed.is_set():
            raise self._cut or _lost("the inspector session is closed")
        self._sent += 1
        number = self._sent
        body: dict[str, object] = {"id": number, "method": command.method}
        if command.params is not None:
            body["params"] = command.params
        future: asyncio.Future[tuple[bytes, int]] = asyncio.get_running_loop().create_future()
        self._pending[number] = future
        try:
            await self._socket.send_str(json.dumps(body))
        except (OSError, aiohttp.ClientError) as error:
            self._pending.pop(number, None)
            raise self._cut or _lost("the inspector session was cut while sending") from error
        return future

    async def _read(self) -> None:
        cut = _lost("the inspector session was cut")
        try:
            while True:
                message = await self._socket.receive()
                at_us = self._now_us()
                if message.type is aiohttp.WSMsgType.ERROR:
                    cut = _broken(message.data)
                    return
                if message.type not in (aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.BINARY):
                    return
                data: bytes = message.data
                number = _number(data)
                if number is None:
                    cut = _lost("the inspector sent something that is no protocol message")
                    return
                future = self._pending.pop(number, None)
                if future is not None and not future.done():
                    future.set_result((data, at_us))
        finally:
            self._cut = cut
            self._closed.set()
            for future in self._pending.values():
                if not future.done():
                    future.set_exception(cut)
            self._pending.clear()


def client() -> aiohttp.ClientSession:
    """What sessions and lists are asked through; to be closed by whoever made it."""
    return aiohttp.ClientSession(trust_env=False)


async def connect(
    http: aiohttp.ClientSession,
    address: str,
    service: str,
    *,
    clock: Clock,
    timeout_s: float,
    max_reply_bytes: int,
) -> Cdp:
    """Open a session with one isolate.

    Raises:
        Fault: ``target_exited`` when nothing listens there, ``not_loaded`` when the runtime has no
            such service, ``runtime_timeout``, ``inspector_lost``.
    """
    try:
        async with asyncio.timeout(timeout_s):
            socket = await http.ws_connect(
                f"ws://{address}/{service}",
                max_msg_size=max_reply_bytes,
                decode_text=False,
                timeout=aiohttp.ClientWSTimeout(ws_receive=None, ws_close=CLOSE_S),
            )
    except TimeoutError:
        raise Fault(
            Reason.RUNTIME_TIMEOUT, f"the inspector did not answer in {timeout_s:g} s"
        ) from None
    except aiohttp.WSServerHandshakeError as error:
        if error.status == HTTPStatus.NOT_FOUND:
            raise Fault(
                Reason.NOT_LOADED, f"the runtime has no service named {service!r}"
            ) from None
        raise _lost(f"the inspector answered {error.status}") from None
    except aiohttp.ClientConnectorError:
        raise Fault(
            Reason.TARGET_EXITED, "nothing listens at the runtime's inspector address"
        ) from None
    except (OSError, aiohttp.ClientError) as error:
        raise _lost("the inspector did not accept a session") from error
    return Cdp(socket, clock)


def _lost(message: str) -> Fault:
    return Fault(Reason.INSPECTOR_LOST, message)


def _broken(error: object) -> Fault:
    if (
        isinstance(error, aiohttp.WebSocketError)
        and error.code == aiohttp.WSCloseCode.MESSAGE_TOO_BIG
    ):
        return Fault(
            Reason.PROFILE_TOO_LARGE, "the runtime's reply is larger than max_reply_bytes allows"
        )
    return _lost("the inspector sent something that is no websocket frame")


def _number(data: bytes) -> int | None:
    """The command a message answers, 0 for an event, None for what is neither."""
    found = REPLY.match(data, 0, 64)
    if found is not None:
        return int(found[1])
    try:
        message = json.loads(data) if len(data) <= SMALL_BYTES else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict):
        return None
    number = message.get("id")
    if type(number) is int:
        return number
    return 0 if isinstance(message.get("method"), str) else None


def _checked(command: Command, data: bytes) -> bytes:
    """The reply, unless it is an error."""
    if len(data) > SMALL_BYTES:
        return data
    try:
        message = json.loads(data)
    except (ValueError, RecursionError):
        raise _lost(f"the inspector's reply to {command.method} is not JSON") from None
    error = message.get("error")
    if error is None:
        return data
    told = str(error.get("message", "")) if isinstance(error, dict) else ""
    raise Fault(Reason.RUNTIME_UNSUPPORTED, f"the runtime refused {command.method}: {told[:200]}")
