"""What is rendered is kept, once, and within a bound."""

from __future__ import annotations

import asyncio
import gzip
from typing import TYPE_CHECKING

import pytest

from control_plane.api.renderings import Renderings

if TYPE_CHECKING:
    from collections.abc import Callable


class Maker:
    """Renders a name as itself and remembers how often."""

    def __init__(self) -> None:
        self.made: list[str] = []

    async def of(self, kept: Renderings, name: str) -> bytes:
        async def make() -> Callable[[], bytes]:
            await asyncio.sleep(0)
            self.made.append(name)
            return lambda: name.encode()

        return gzip.decompress(await kept.made(name, make))


async def test_callers_at_once_share_one_making() -> None:
    kept, maker = Renderings(), Maker()
    answers = await asyncio.gather(*(maker.of(kept, "a") for _ in range(5)))
    assert answers == [b"a"] * 5
    assert maker.made == ["a"]
    kept.close()


async def test_the_least_used_is_forgotten_first() -> None:
    one = len(gzip.compress(b"a", 6, mtime=0))
    kept, maker = Renderings(max_bytes=4 * one), Maker()
    for name in ("a", "b", "c", "d", "a", "e"):
        await maker.of(kept, name)
    assert [name for name in "abcde" if kept.known(name)] == ["a", "c", "d", "e"]
    kept.close()


async def test_what_is_too_big_is_not_kept() -> None:
    kept, maker = Renderings(max_bytes=8), Maker()
    assert await maker.of(kept, "a") == b"a"
    assert kept.known("a") is None
    kept.close()


async def test_a_failure_is_not_kept() -> None:
    kept, maker = Renderings(), Maker()

    async def fail() -> Callable[[], bytes]:
        def work() -> bytes:
            raise ValueError("no")

        return work

    with pytest.raises(ValueError, match="no"):
        await kept.made("a", fail)
    assert await maker.of(kept, "a") == b"a"
    kept.close()
