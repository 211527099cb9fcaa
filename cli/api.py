"""The REST API as the command sees it: one request, one attempt, an answer or an ``ApiError``."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import aiohttp

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from cli.settings import Settings

TIMEOUT_S = 90.0
# On top of a capture's own duration: waiting for an isolate, hand-over, storing.
MARGIN_S = 40.0
# A stream of events says at least every quarter of a minute that it lives.
SILENCE_S = 60.0
PPROF_TYPE = "application/vnd.google.protobuf"
USER_AGENT = "isoprof-cli/0.1.0"


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One entry of an answer's ``errors``. ``pointer`` names the wrong field, or is empty."""

    code: int
    message: str
    pointer: str = ""


class ApiError(Exception):
    """The API refused, failed or could not be reached.

    Args:
        status: HTTP status; 0 when there was no answer.
        problems: never empty; a code is 0 where the answer had none.
        request_id: finds the request in the server's logs; empty when there was no answer.
        retry_after_s: when trying again can help.
    """

    def __init__(
        self,
        status: int,
        problems: tuple[Problem, ...],
        *,
        request_id: str = "",
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__("; ".join(problem.message for problem in problems))
        self.status = status
        self.problems = problems
        self.request_id = request_id
        self.retry_after_s = retry_after_s


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What came back, whole. Header names are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True, kw_only=True)
class Profile:
    """A profile as it came.

    Args:
        data: pprof.
        about: what the ``X-Isoprof-*`` headers say, by their last part: ``samples``, ``metal``.
    """

    data: bytes
    about: dict[str, str]


class Api:
    """One account's API, or the operators'. Made by :func:`connect`; nothing is ever sent twice."""

    def __init__(self, session: aiohttp.ClientSession, settings: Settings) -> None:
        self._session = session
        self._base_url = settings.base_url
        self._root = settings.base_url
        if settings.account_id:
            self._root += f"/accounts/{quote(settings.account_id, safe='')}"

    async def call(
        self,
        method: str,
        *path: str,
        query: dict[str, str] | None = None,
        body: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> dict[str, Any]:
        """Send one request; the envelope of a success. Each segment of ``path`` is escaped.

        Raises:
            ApiError: any other answer, or none.
        """
        answer = await self._send(
            method, path, query=query, body=body, headers=headers, timeout_s=TIMEOUT_S
        )
        return envelope(answer)

    async def profile(
        self,
        method: str,
        *path: str,
        body: dict[str, Any] | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> Profile:
        """Send one request whose success is a pprof; bytes are returned only when they are one.

        Raises:
            ApiError: any other answer, a cut one, or none.
        """
        return pprof(await self._send(method, path, query=None, body=body, timeout_s=timeout_s))

    async def lines(self, *path: str, last_id: str = "") -> AsyncIterator[str]:
        """Read a stream of events line by line, without line ends, until it ends.

        Raises:
            ApiError: any other answer, silence for too long, or none.
        """
        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": last_id} if last_id else {})
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=TIMEOUT_S, sock_read=SILENCE_S)
        with self._unreached(SILENCE_S):
            async with self._session.request(
                "GET",
                self._url(path),
                params=None,
                json=None,
                headers=headers,
                allow_redirects=False,
                timeout=timeout,
            ) as response:
                if response.status not in {200, 204}:
                    raise refusal(await _whole(response))
                async for line in response.content:
                    yield line.decode(errors="replace").rstrip("\r\n")

    def _url(self, path: tuple[str, ...]) -> str:
        return "/".join([self._root, *(quote(segment, safe="") for segment in path)])

    @contextmanager
    def _unreached(self, timeout_s: float) -> Iterator[None]:
        try:
            yield
        except TimeoutError:
            raise unreached(f"no answer within {timeout_s:.0f} s from {self._base_url}") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            text = str(error) or type(error).__name__
            raise unreached(f"{self._base_url} could not be reached: {text}") from None

    async def _send(
        self,
        method: str,
        path: tuple[str, ...],
        *,
        query: dict[str, str] | None,
        body: dict[str, Any] | None,
        headers: dict[str, str] | None = None,
        timeout_s: float,
    ) -> Answer:
        with self._unreached(timeout_s):
            # No redirect is followed: it would carry the token to another place.
            async with self._session.request(
                method,
                self._url(path),
                params=query,
                json=body,
                headers=headers,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=timeout_s),
            ) as response:
                return await _whole(response)


async def _whole(response: aiohttp.ClientResponse) -> Answer:
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Answer(status=response.status, headers=headers, body=await response.read())


@asynccontextmanager
async def connect(settings: Settings) -> AsyncIterator[Api]:
    """Open an account's API for one command."""
    headers = {"Authorization": f"Bearer {settings.token}", "User-Agent": USER_AGENT}
    async with aiohttp.ClientSession(headers=headers) as session:
        yield Api(session, settings)


def profile_timeout_s(duration_ms: int) -> float:
    """Seconds to wait for a profile; longer than the server takes at its slowest."""
    return max(TIMEOUT_S, duration_ms / 1000 + MARGIN_S)


def envelope(answer: Answer) -> dict[str, Any]:
    """Read a success.

    Raises:
        ApiError: it is not one, or not in the API's envelope.
    """
    if answer.status not in range(200, 300):
        raise refusal(answer)
    try:
        parsed = json.loads(answer.body)
    except ValueError:
        parsed = None
    if not isinstance(parsed, dict) or parsed.get("success") is not True:
        raise refusal(answer)
    return parsed


def pprof(answer: Answer) -> Profile:
    """Read a profile.

    Raises:
        ApiError: the answer is a refusal, or a success that holds no pprof.
    """
    content_type = answer.headers.get("content-type", "").partition(";")[0].strip()
    if answer.status != 200 or content_type != PPROF_TYPE or not answer.body:
        raise refusal(answer)
    prefix = "x-isoprof-"
    about = {
        name.removeprefix(prefix): value
        for name, value in answer.headers.items()
        if name.startswith(prefix)
    }
    return Profile(data=answer.body, about=about)


def refusal(answer: Answer) -> ApiError:
    """Read a failure, in the API's envelope or in whatever something in between said."""
    problems: list[Problem] = []
    try:
        for one in json.loads(answer.body)["errors"]:
            pointer = str((one.get("source") or {}).get("pointer") or "")
            message = str(one["message"])
            problems.append(Problem(code=int(one["code"]), message=message, pointer=pointer))
    except (ValueError, KeyError, TypeError, AttributeError):
        problems.clear()
    if not problems:
        kind = answer.headers.get("content-type", "no content type")
        text = f"HTTP {answer.status} with {kind}, which is no answer of this API"
        problems.append(Problem(code=0, message=text))
    try:
        retry_after_s: float | None = float(answer.headers["retry-after"])
    except (KeyError, ValueError):
        retry_after_s = None
    return ApiError(
        answer.status,
        tuple(problems),
        request_id=answer.headers.get("x-request-id", ""),
        retry_after_s=retry_after_s,
    )


def unreached(message: str) -> ApiError:
    """Say that there was no answer at all."""
    return ApiError(0, (Problem(code=0, message=message),))
