"""An inspector that misbehaves: each way is a named fault, and memory stays bounded."""

from __future__ import annotations

import asyncio
import io
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import aiohttp
import pytest
from aiohttp import web

from contract.faults import Fault, Reason
from edge_agent.runtime import IsolateConfig
from edge_agent.runtimes.clock import SystemClock
from edge_agent.runtimes.workerd.inspector import Patience
from edge_agent.runtimes.workerd.runtime import WorkerdRuntime
from edge_agent.runtimes.workerd.tails import Tails

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from edge_agent.runtime import Target

    Answer = Callable[[web.WebSocketResponse, int, str], Awaitable[None]]

CONFIG = IsolateConfig(
    service="main",
    account_id="a" * 32,
    worker_id="b" * 32,
    worker_name="main",
    version_id="00000000-0000-4000-8000-000000000001",
)
LIMIT = 1 << 16
PATIENCE = Patience(connect_s=1.0, command_s=0.3, start_s=0.3, stop_s=0.3, leave_s=0.3)


async def echo(socket: web.WebSocketResponse, number: int, method: str) -> None:
    await socket.send_json({"id": number, "method": method, "params": {}})


async def garbage(socket: web.WebSocketResponse, number: int, method: str) -> None:
    await socket.send_str("\x00 not a protocol message")


async def much_garbage(socket: web.WebSocketResponse, number: int, method: str) -> None:
    await socket.send_bytes(b"\xff" * (LIMIT - 1))


async def array(socket: web.WebSocketResponse, number: int, method: str) -> None:
    await socket.send_str("[" * 30_000)


async def oversized(socket: web.WebSocketResponse, number: int, method: str) -> None:
    await socket.send_str(json.dumps({"id": number, "result": {"profile": "x" * 10 * LIMIT}}))


async def silent(socket: web.WebSocketResponse, number: int, method: str) -> None:
    pass


async def refusing(socket: web.WebSocketResponse, number: int, method: str) -> None:
    await socket.send_json({"id": number, "error": {"code": -32601, "message": "wasn't found"}})


async def half(socket: web.WebSocketResponse, number: int, method: str) -> None:
    await socket.send_str(f'{{"id":{number},"result":{{"usedSize"')


async def wrong_numbers(socket: web.WebSocketResponse, number: int, method: str) -> None:
    await socket.send_json({"id": number, "result": {"usedSize": "many"}})


async def others_replies(socket: web.WebSocketResponse, number: int, method: str) -> None:
    await socket.send_json({"id": number + 1000, "result": {}})


async def closing(socket: web.WebSocketResponse, number: int, method: str) -> None:
    await socket.close()


async def unframed(socket: web.WebSocketResponse, number: int, method: str) -> None:
    transport = socket._req.transport if socket._req else None
    assert transport is not None
    assert isinstance(transport, asyncio.Transport)
    transport.write(b"\xff\xff\xff\xff\xff\xff\xff\xff")


@asynccontextmanager
async def served(app: web.Application) -> AsyncIterator[str]:
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    try:
        yield f"{host}:{port}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def inspected(answer: Answer) -> AsyncIterator[WorkerdRuntime]:
    async def listing(_request: web.Request) -> web.Response:
        return web.json_response([{"id": "main"}, {"id": 7}, "text"])

    async def session(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        async for message in socket:
            command = json.loads(message.data)
            await answer(socket, command["id"], command["method"])
        return socket

    app = web.Application()
    app.router.add_get("/json", listing)
    app.router.add_get("/main", session)
    async with served(app) as address:
        runtime = WorkerdRuntime(
            "wd1",
            address,
            [CONFIG],
            "heap",
            None,
            SystemClock(),
            max_reply_bytes=LIMIT,
            back_off_s=0.0,
            patience=PATIENCE,
        )
        try:
            yield runtime
        finally:
            await runtime.close()


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (garbage, Reason.INSPECTOR_LOST),
        (much_garbage, Reason.INSPECTOR_LOST),
        (array, Reason.INSPECTOR_LOST),
        (half, Reason.INSPECTOR_LOST),
        (wrong_numbers, Reason.INSPECTOR_LOST),
        (closing, Reason.INSPECTOR_LOST),
        (unframed, Reason.INSPECTOR_LOST),
        (oversized, Reason.PROFILE_TOO_LARGE),
        (silent, Reason.RUNTIME_TIMEOUT),
        (others_replies, Reason.RUNTIME_TIMEOUT),
        (refusing, Reason.RUNTIME_UNSUPPORTED),
    ],
)
async def test_bad_answer_is_a_named_fault(answer: Answer, reason: Reason) -> None:
    async with asyncio.timeout(10), inspected(answer) as runtime:
        (target,) = await runtime.targets()
        with pytest.raises(Fault) as caught:
            async with runtime.probe(target) as probe:
                await probe.heap_usage()
        assert caught.value.reason is reason


async def profile(runtime: WorkerdRuntime, target: Target) -> None:
    async with runtime.probe(target) as probe:
        await probe.start_cpu(1000)
        await probe.stop_cpu()


async def test_oversized_profile() -> None:
    async def answer(socket: web.WebSocketResponse, number: int, method: str) -> None:
        stops.append(method)
        if method == "Profiler.stop" and stops.count(method) > 2:
            await oversized(socket, number, method)
        else:
            await echo(socket, number, method)

    stops: list[str] = []
    async with asyncio.timeout(10), inspected(answer) as runtime:
        (target,) = await runtime.targets()
        with pytest.raises(Fault) as caught:
            await profile(runtime, target)
        assert caught.value.reason is Reason.PROFILE_TOO_LARGE


async def test_enable_never_comes_before_a_stop() -> None:
    async def answer(socket: web.WebSocketResponse, number: int, method: str) -> None:
        sent.append(method)
        await echo(socket, number, method)

    sent: list[str] = []
    async with inspected(answer) as runtime:
        (target,) = await runtime.targets()
        async with runtime.probe(target) as probe:
            await probe.start_cpu(1000)
            await probe.stop_cpu()
            await probe.start_cpu(1000)
        await runtime.clear(target)
    for index, method in enumerate(sent):
        if method == "Profiler.enable":
            assert sent[index - 1] == "Profiler.stop", sent
    assert sent[0] == "Profiler.stop"
    assert sent.count("Profiler.start") == 2


@pytest.mark.parametrize("body", ["not json", "{}", "[1]", '[{"id": 3}]', "[" * 100_000])
async def test_bad_listing_is_no_targets(body: str) -> None:
    async def listing(_request: web.Request) -> web.Response:
        return web.Response(text=body)

    app = web.Application()
    app.router.add_get("/json", listing)
    async with served(app) as address:
        runtime = WorkerdRuntime("wd1", address, [CONFIG], "heap", None, SystemClock())
        assert await runtime.targets() == ()
        await runtime.close()


@pytest.mark.parametrize(
    "address",
    ["0.0.0.0:9000", "10.0.0.1:9000", "localhost:9000", "127.0.0.1", "[::]:1", "127.0.0.1:70000"],
)
def test_only_loopback(address: str) -> None:
    with pytest.raises(ValueError, match="loopback"):
        WorkerdRuntime("wd1", address, [CONFIG], "heap", None, SystemClock())
    with pytest.raises(ValueError, match="loopback"):
        Tails(address)


def execution(**change: object) -> dict[str, object]:
    whole: dict[str, object] = {
        "service": "main",
        "objectId": None,
        "entrypoint": None,
        "outcome": "ok",
        "count": 1,
    }
    return whole | change


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"runtime": "wd1", "executions": [execution()]}, 204),
        ({"runtime": "wd1", "executions": []}, 204),
        ({"runtime": "wd2", "executions": [execution()]}, 404),
        ({"runtime": ["wd1"], "executions": []}, 400),
        ({"executions": []}, 400),
        ({"runtime": "wd1", "executions": 3}, 400),
        ({"runtime": "wd1", "executions": [execution(count=0)]}, 400),
        ({"runtime": "wd1", "executions": [execution(count=True)]}, 400),
        ({"runtime": "wd1", "executions": [execution(service="s" * 300)]}, 400),
        ({"runtime": "wd1", "executions": [execution(objectId="zz")]}, 400),
        ([], 400),
        ({"runtime": "wd1", "executions": [execution(service="s" * 200)] * 20_000}, 413),
    ],
)
async def test_tail_posts_are_checked(body: object, status: int) -> None:
    tails = Tails("127.0.0.1:0")
    tails.register("wd1")
    address = await tails.start()
    try:
        async with (
            aiohttp.ClientSession() as http,
            http.post(
                f"http://{address}/v1/executions", data=io.BytesIO(json.dumps(body).encode())
            ) as answer,
        ):
            assert answer.status == status
    finally:
        await tails.close()
