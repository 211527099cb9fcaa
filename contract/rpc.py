"""gRPC as both halves use it: options, faults over the wire, and the interceptor that sends them.

A fault travels as a status code (for tools that know only gRPC) with its exact reason beside it in
the trailing metadata, so the other side raises the same fault again.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import grpc
import structlog
from grpc import aio

from contract.faults import Fault, Kind, Reason

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

REASON_KEY = "isoprof-reason"
RETRY_AFTER_KEY = "isoprof-retry-after-s"
MESSAGE_LIMIT_BYTES = 4 * 1024 * 1024

#: A peer that went away without a word is noticed within two of these.
KEEPALIVE_MS = 10_000
_KEEPALIVE_TIMEOUT_MS = 5_000

CODE_OF: dict[Kind, grpc.StatusCode] = {
    Kind.INVALID: grpc.StatusCode.INVALID_ARGUMENT,
    Kind.UNAUTHENTICATED: grpc.StatusCode.UNAUTHENTICATED,
    Kind.FORBIDDEN: grpc.StatusCode.PERMISSION_DENIED,
    Kind.NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    Kind.CONFLICT: grpc.StatusCode.FAILED_PRECONDITION,
    Kind.TOO_LARGE: grpc.StatusCode.OUT_OF_RANGE,
    Kind.OVER_QUOTA: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Kind.BUSY: grpc.StatusCode.ABORTED,
    Kind.UNAVAILABLE: grpc.StatusCode.UNAVAILABLE,
    Kind.TIMED_OUT: grpc.StatusCode.DEADLINE_EXCEEDED,
    Kind.INTERNAL: grpc.StatusCode.INTERNAL,
}

_COMMON_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_send_message_length", MESSAGE_LIMIT_BYTES),
    ("grpc.max_receive_message_length", MESSAGE_LIMIT_BYTES),
    ("grpc.keepalive_time_ms", KEEPALIVE_MS),
    ("grpc.keepalive_timeout_ms", _KEEPALIVE_TIMEOUT_MS),
)
CHANNEL_OPTIONS = (
    *_COMMON_OPTIONS,
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2_000),
)
SERVER_OPTIONS = (
    *_COMMON_OPTIONS,
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", KEEPALIVE_MS // 2),
    ("grpc.so_reuseport", 0),
)

log = structlog.get_logger()


def channel(address: str) -> aio.Channel:
    """A plain-text channel, for loopback and private networks."""
    return aio.insecure_channel(address, options=CHANNEL_OPTIONS)


def server() -> aio.Server:
    """A server whose handlers may raise faults."""
    return aio.server(interceptors=(FaultInterceptor(),), options=SERVER_OPTIONS)


def fault_of(error: aio.AioRpcError, *, unreachable: Reason) -> Fault:
    """The fault a failed call stands for.

    Args:
        error: what the call raised.
        unreachable: the reason when the peer could not be asked at all, or did not answer in time.
    """
    trailer = cast("Iterable[tuple[str, str | bytes]]", error.trailing_metadata() or ())
    metadata = dict(trailer)
    known = metadata.get(REASON_KEY)
    if isinstance(known, str) and known in Reason._value2member_map_:
        return Fault(
            Reason(known),
            error.details() or known,
            retry_after_s=_seconds(metadata.get(RETRY_AFTER_KEY)),
        )
    if error.code() in {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.CANCELLED,
    }:
        return Fault(unreachable, f"{error.code().name.lower()}: {error.details() or 'no answer'}")
    return Fault(Reason.INTERNAL, f"{error.code().name.lower()}: {error.details() or ''}")


def _seconds(text: str | bytes | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return None


def _trailer(fault: Fault) -> tuple[tuple[str, str], ...]:
    trailer = [(REASON_KEY, fault.reason.value)]
    if fault.retry_after_s is not None:
        trailer.append((RETRY_AFTER_KEY, f"{fault.retry_after_s:.3f}"))
    return tuple(trailer)


async def _refuse(context: aio.ServicerContext[Any, Any], fault: Fault) -> None:
    # What went wrong inside stays inside: the caller learns only that something did.
    details = "internal error" if fault.kind is Kind.INTERNAL else fault.message
    await context.abort(CODE_OF[fault.kind], details, _trailer(fault))


class FaultInterceptor(aio.ServerInterceptor):  # type: ignore[type-arg]
    """Turns a handler's fault into its status, and any other exception into an internal fault."""

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        """Wrap the handler of one call; only the two shapes our services have."""
        handler = await continuation(handler_call_details)
        method = handler_call_details.method
        if handler is None or handler.response_streaming:
            return handler
        if handler.request_streaming:
            return grpc.stream_unary_rpc_method_handler(
                _guarded(handler.stream_unary, method),
                handler.request_deserializer,
                handler.response_serializer,
            )
        return grpc.unary_unary_rpc_method_handler(
            _guarded(handler.unary_unary, method),
            handler.request_deserializer,
            handler.response_serializer,
        )


def _guarded(
    behavior: Callable[[Any, aio.ServicerContext[Any, Any]], Awaitable[Any]], method: str
) -> Callable[[Any | AsyncIterator[Any], aio.ServicerContext[Any, Any]], Awaitable[Any]]:
    async def call(request: Any, context: aio.ServicerContext[Any, Any]) -> Any:
        try:
            return await behavior(request, context)
        except Fault as fault:
            if fault.kind is Kind.INTERNAL:
                log.exception("rpc_failed", method=method, reason=fault.reason, error=fault.message)
            await _refuse(context, fault)
        except (asyncio.CancelledError, aio.AbortError):
            raise
        except Exception as error:
            log.exception("rpc_failed", method=method)
            await _refuse(context, Fault(Reason.INTERNAL, str(error)))

    return call
