"""A scripted API in place of the network: answers in turn, requests kept."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cli import api

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import aiohttp

    from cli.settings import Settings


@dataclass(kw_only=True)
class Sent:
    """One request as it would have gone out."""

    method: str
    url: str
    query: dict[str, str] | None
    body: dict[str, Any] | None
    timeout_s: float | None
    headers: dict[str, str] | None


@dataclass
class FakeApi:
    """Stands in for ``aiohttp.ClientSession``; an answer may be an exception to raise."""

    answers: list[api.Answer | BaseException] = field(default_factory=list)
    sent: list[Sent] = field(default_factory=list)

    @asynccontextmanager
    async def request(
        self,
        method: str,
        url: str,
        *,
        params: dict[str, str] | None,
        json: dict[str, Any] | None,
        headers: dict[str, str] | None,
        allow_redirects: bool,
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - aiohttp's own parameter
    ) -> AsyncIterator[Reply]:
        assert not allow_redirects
        self.sent.append(
            Sent(
                method=method,
                url=url,
                query=params,
                body=json,
                timeout_s=timeout.total,
                headers=headers,
            )
        )
        given = self.answers.pop(0)
        if isinstance(given, BaseException):
            raise given
        yield Reply(given)

    @asynccontextmanager
    async def connect(self, settings: Settings) -> AsyncIterator[api.Api]:
        yield api.Api(self, settings)  # type: ignore[arg-type]


class Reply:
    """The part of ``aiohttp.ClientResponse`` that is used."""

    def __init__(self, answer: api.Answer) -> None:
        self.status = answer.status
        self.headers = answer.headers
        self._body = answer.body

    async def read(self) -> bytes:
        return self._body

    @property
    async def content(self) -> AsyncIterator[bytes]:
        for line in self._body.splitlines(keepends=True):
            yield line
