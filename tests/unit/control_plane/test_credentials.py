from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_plane import credentials
from control_plane.credentials import TokenKind

SECRETS = st.binary(min_size=credentials.SECRET_BYTES, max_size=credentials.SECRET_BYTES)
KEY = bytes(range(32))


@given(secret=SECRETS, kind=st.sampled_from(TokenKind))
def test_a_token_says_whose_it_is_and_can_be_scanned_for(secret: bytes, kind: TokenKind) -> None:
    token = credentials.compose(kind, secret)
    assert credentials.kind_of(token) is kind
    assert len(token) == len(kind) + 49
    leaked = f'curl -H "Authorization: Bearer {token}" https://…'
    assert re.findall(credentials.LEAK_PATTERN, leaked) == [token]


@given(secret=SECRETS, other=SECRETS)
def test_tokens_differ_as_their_secrets_do(secret: bytes, other: bytes) -> None:
    made = {credentials.compose(TokenKind.ACCOUNT, one) for one in (secret, other)}
    assert len(made) == len({secret, other})


def test_a_slip_in_any_place_is_noticed_without_asking_anybody() -> None:
    token = credentials.compose(TokenKind.ACCOUNT, KEY)
    for place in range(len(token)):
        slipped = token[:place] + ("a" if token[place] != "a" else "b") + token[place + 1 :]
        assert credentials.kind_of(slipped) is None
    # Checksums cover the prefix: an account's token can't be made an operator's.
    assert credentials.kind_of(token.replace("iso_acc_", "iso_op_")) is None


@pytest.mark.parametrize("text", ["", "x", "iso_acc_", "isop_", "Bearer x", "iso_acc_" + "é" * 49])
def test_what_can_be_no_token(text: str) -> None:
    assert credentials.kind_of(text) is None


def test_tokens_of_before_there_were_prefixes_are_the_accounts() -> None:
    assert credentials.kind_of("isop_" + "aZ0_-" * 8 + "abc") is TokenKind.ACCOUNT


def test_what_is_stored_depends_on_the_key() -> None:
    plain = credentials.plain_hash("t")
    assert credentials.keyed(KEY, plain) != credentials.keyed(bytes(32), plain)
    assert credentials.fingerprint(KEY) != credentials.fingerprint(bytes(32))
    assert KEY.hex() not in credentials.fingerprint(KEY)


def test_too_short_a_secret_makes_no_token() -> None:
    with pytest.raises(ValueError, match="32"):
        credentials.compose(TokenKind.ACCOUNT, b"short")
