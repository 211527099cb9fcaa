"""Both ends notice a connection that died without a word; ``bench/half_open.py`` times it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import grpc

from contract import rpc
from tests.integration.half_open import half_open
from tests.integration.tls_scene import halves

if TYPE_CHECKING:
    from pathlib import Path

HANGS_S = 120


def test_two_intervals_are_enough_by_the_options() -> None:
    for options in (dict(rpc.CHANNEL_OPTIONS), dict(rpc.SERVER_OPTIONS)):
        interval, answer = options["grpc.keepalive_time_ms"], options["grpc.keepalive_timeout_ms"]
        assert interval + answer < 2 * rpc.KEEPALIVE_MS
        assert options["grpc.http2.ping_timeout_ms"] == answer
        # Also while no call is under way, however long that is.
        assert options["grpc.keepalive_permit_without_calls"] == 1
        assert options["grpc.http2.max_pings_without_data"] == 0
    # And no end takes the other's pings for an attack.
    allowed = dict(rpc.SERVER_OPTIONS)["grpc.http2.min_ping_interval_without_data_ms"]
    assert allowed < dict(rpc.CHANNEL_OPTIONS)["grpc.keepalive_time_ms"]


async def test_both_ends_notice(tmp_path: Path) -> None:
    async with halves(tmp_path) as scene, half_open(scene) as ends, asyncio.timeout(HANGS_S):
        ends.proxy.silent = True
        error = await ends.client_saw()
        await ends.server_saw.wait()
    assert error.code() is grpc.StatusCode.UNAVAILABLE
