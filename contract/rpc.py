"""gRPC as both halves use it: options, TLS, faults over the wire, and the interceptor in between.

A fault travels as a status code (for tools that know only gRPC) with its exact reason beside it in
the trailing metadata, so the other side raises the same fault again.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import grpc
import structlog
from grpc import aio

from contract import identity
from contract.faults import Fault, Kind, Reason

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

    from contract.certificates import Certificates, Material

REASON_KEY = "isoprof-reason"
RETRY_AFTER_KEY = "isoprof-retry-after-s"
MESSAGE_LIMIT_BYTES = 4 * 1024 * 1024

#: A peer that went away without a word is noticed within two of these, on both ends.
KEEPALIVE_MS = 10_000
_KEEPALIVE_TIMEOUT_MS = 5_000
#: A connection lives this long at most (a tenth more or less), so that one made with a certificate
#: that would no longer be accepted ends. Calls on it are let finish: an upload takes a minute.
CONNECTION_AGE_MS = 600_000
_CONNECTION_GRACE_MS = 90_000

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
    # Without it an unanswered ping is waited for by its default of a minute, whatever the above.
    ("grpc.http2.ping_timeout_ms", _KEEPALIVE_TIMEOUT_MS),
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
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", KEEPALIVE_MS // 2),
    ("grpc.max_connection_age_ms", CONNECTION_AGE_MS),
    ("grpc.max_connection_age_grace_ms", _CONNECTION_GRACE_MS),
    ("grpc.so_reuseport", 0),
)

log = structlog.get_logger()


def channel(address: str) -> aio.Channel:
    """A channel in plain text; ``contract.channels`` keeps it to loopback."""
    return aio.insecure_channel(address, options=CHANNEL_OPTIONS)


def secure_channel(address: str, material: Material, peer: str) -> aio.Channel:
    """A channel to whoever is called ``peer``, wherever it listens; anybody else is refused."""
    credentials = grpc.ssl_channel_credentials(
        material.authority, material.key, material.certificate
    )
    options = (
        *CHANNEL_OPTIONS,
        ("grpc.ssl_target_name_override", peer),
        # A connection is made anew with new material, never shared with an older channel.
        ("grpc.use_local_subchannel_pool", 1),
    )
    return aio.secure_channel(address, credentials, options=options)


def server(admission: Admission | None = None) -> aio.Server:
    """A server whose handlers may raise faults.

    Args:
        admission: who may call; None for plain text, where nobody says who they are.
    """
    return aio.server(interceptors=(FaultInterceptor(admission),), options=SERVER_OPTIONS)


def bind(server: aio.Server, address: str, certificates: Certificates | None) -> int:
    """Bind ``host:port`` and return the port; each handshake uses what is current by then.

    Args:
        certificates: None for plain text.

    Raises:
        OSError: the address can't be listened on.
    """
    try:
        if certificates is None:
            return server.add_insecure_port(address)
        return server.add_secure_port(address, _server_credentials(certificates))
    except RuntimeError as error:
        raise OSError(f"cannot listen on {address}") from error


def _server_credentials(certificates: Certificates) -> grpc.ServerCredentials:
    served = certificates.current

    def changed() -> grpc.ServerCertificateConfiguration | None:
        # Asked before every handshake, on a thread of the library.
        nonlocal served
        current = certificates.current
        if current is served:
            return None
        served = current
        return _configuration(current)

    return grpc.dynamic_ssl_server_credentials(
        _configuration(served),
        # None means no change; the published stubs don't know.
        cast("Callable[[], grpc.ServerCertificateConfiguration]", changed),
        require_client_authentication=True,
    )


def _configuration(material: Material) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration(
        [(material.key, material.certificate)], root_certificates=material.authority
    )


def holder(context: aio.ServicerContext[Any, Any]) -> str | None:
    """Who called, by the certificate it showed; None when it showed none, or one of nobody ours."""
    names = context.auth_context().get("peer_dns", ())
    return identity.holder(name.decode("utf-8", "replace") for name in names)


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


# What the library says when a handshake fails, and what it means.
_HANDSHAKE_FAILURES = (
    ("Hostname Verification Check failed", "peer_is_another"),
    ("CERTIFICATE_VERIFY_FAILED", "peer_untrusted"),
    ("WRONG_VERSION_NUMBER", "peer_speaks_plaintext"),
    ("Socket closed", "peer_closed_connection"),
)


def handshake_failure(error: aio.AioRpcError) -> str | None:
    """Name why no connection was made; None when that was no matter of certificates.

    A server that refuses one's own certificate closes the connection without a word, and so does
    one that ends: both are ``peer_closed_connection``.
    """
    if error.code() is not grpc.StatusCode.UNAVAILABLE:
        return None
    details = error.details() or ""
    return next((name for text, name in _HANDSHAKE_FAILURES if text in details), None)


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


@dataclass(frozen=True, kw_only=True)
class Admission:
    """Who may call a service.

    Args:
        service: its full name. Health and reflection are open to every certificate we trust.
        admits: decides by the name of ``contract.identity`` the caller's certificate carries.
    """

    service: str
    admits: Callable[[str | None], bool]

    def check(self, method: str, context: aio.ServicerContext[Any, Any]) -> None:
        """Let the caller pass.

        Raises:
            Fault: peer_forbidden.
        """
        name = holder(context)
        if self.guards(method) and not self.admits(name):
            log.warning("peer_refused", method=method, name=name, address=context.peer())
            raise Fault(Reason.PEER_FORBIDDEN, "The certificate's holder may not make this call.")

    def guards(self, method: str) -> bool:
        """Whether a method is of the service."""
        return method.startswith(f"/{self.service}/")


class FaultInterceptor(aio.ServerInterceptor):  # type: ignore[type-arg]
    """Turns a handler's fault into its status, and any other exception into an internal fault."""

    def __init__(self, admission: Admission | None = None) -> None:
        self._admission = admission

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        """Wrap the handler of one call; only the two shapes our services have."""
        handler = await continuation(handler_call_details)
        method = handler_call_details.method
        if handler is None or handler.response_streaming:
            # Health and reflection stream; nothing of ours does, or it would go unguarded here.
            ours = self._admission is not None and self._admission.guards(method)
            return None if ours else handler
        if handler.request_streaming:
            return grpc.stream_unary_rpc_method_handler(
                self._guarded(handler.stream_unary, method),
                handler.request_deserializer,
                handler.response_serializer,
            )
        return grpc.unary_unary_rpc_method_handler(
            self._guarded(handler.unary_unary, method),
            handler.request_deserializer,
            handler.response_serializer,
        )

    def _guarded(
        self, behavior: Callable[[Any, aio.ServicerContext[Any, Any]], Awaitable[Any]], method: str
    ) -> Callable[[Any | AsyncIterator[Any], aio.ServicerContext[Any, Any]], Awaitable[Any]]:
        async def call(request: Any, context: aio.ServicerContext[Any, Any]) -> Any:
            try:
                if self._admission is not None:
                    self._admission.check(method, context)
                return await behavior(request, context)
            except Fault as fault:
                if fault.kind is Kind.INTERNAL:
                    log.exception(
                        "rpc_failed", method=method, reason=fault.reason, error=fault.message
                    )
                await _refuse(context, fault)
            except (asyncio.CancelledError, aio.AbortError):
                raise
            except Exception as error:
                log.exception("rpc_failed", method=method)
                await _refuse(context, Fault(Reason.INTERNAL, str(error)))

        return call
