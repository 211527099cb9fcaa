"""Lines of gRPC's core, and what is made of them."""

from __future__ import annotations

import pytest

from services.core_log import told_by

HEAD = "I1201 05:32:54.005642    4994 ssl_transport_security.cc:2563] Handshake failed with error "
SSL = "SSL_ERROR_SSL: error:1000007d:SSL routines:OPENSSL_internal:"


@pytest.mark.parametrize(
    ("text", "cause", "detail"),
    [
        (
            "CERTIFICATE_VERIFY_FAILED: certificate has expired",
            "peer_untrusted",
            "certificate has expired",
        ),
        (
            "PEER_DID_NOT_RETURN_A_CERTIFICATE: Invalid certificate verification context",
            "peer_shows_no_certificate",
            "Invalid certificate verification context",
        ),
        ("WRONG_VERSION_NUMBER: Invalid", "peer_speaks_plaintext", "Invalid"),
        ("SOMETHING_NEW: odd", "other", "odd"),
    ],
)
def test_a_handshake_that_failed_is_named(text: str, cause: str, detail: str) -> None:
    assert told_by(HEAD + SSL + text) == ("handshake_failed", {"cause": cause, "detail": detail})


def test_what_else_is_wrong_is_passed_on_and_chatter_is_not() -> None:
    wrong = "E1201 05:32:53.957779    4995 tcp.cc:3] No match found"
    assert told_by(wrong) == ("grpc_core", {"source": "tcp.cc:3", "detail": "No match found"})
    for line in (
        "W1201 05:32:53.888522    4988 log.cc:102] Log level INFO is not suitable for production.",
        "I1201 05:32:53.888522    4988 chttp2.cc:1] Keepalive",
        "no line of the core",
        "",
    ):
        assert told_by(line) is None
