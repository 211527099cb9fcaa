"""A process's own files: every mistake told, and a new set taken in only when it is whole."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
)
from structlog.testing import capture_logs

from contract import certificates, identity
from contract.certificates import Certificates, CertificatesInvalid, Files
from services import issuing

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime(2026, 12, 1, tzinfo=UTC)
NAME = identity.of_metal("ams1-m1")
AUTHORITY = issuing.authority(now=NOW, days=100)


def write(folder: Path, issued: issuing.Issued, authority: issuing.Issued = AUTHORITY) -> Files:
    own = Files(
        certificate=folder / "certificate.pem",
        key=folder / "key.pem",
        authority=folder / "authority.pem",
    )
    for path, data in (
        (own.certificate, issued.pem()),
        (own.key, issued.key_pem()),
        (own.authority, authority.pem()),
    ):
        fresh = path.with_suffix(".new")
        fresh.write_bytes(data)
        fresh.replace(path)
    return own


def issued(*names: str, days: float = 10) -> issuing.Issued:
    return issuing.issue(AUTHORITY, *(names or (NAME,)), now=NOW, days=days)


def mistakes(own: Files, at: datetime = NOW) -> dict[str, str]:
    with pytest.raises(CertificatesInvalid) as told:
        certificates.read(own, name=NAME, at=at)
    return {one.pointer: one.message for one in told.value.mistakes}


def test_a_good_set_is_read_whole(tmp_path: Path) -> None:
    one = issued()
    material = certificates.read(write(tmp_path, one), name=NAME, at=NOW)
    assert (material.certificate, material.key) == (one.pem(), one.key_pem())
    assert material.expires_at == NOW + timedelta(days=10)
    # What is shown in a traceback or a log is not the key.
    assert "PRIVATE" not in repr(material)


def test_a_chain_after_the_certificate_is_kept(tmp_path: Path) -> None:
    own = write(tmp_path, issued())
    own.certificate.write_bytes(issued().pem() + AUTHORITY.pem())
    assert set(mistakes(own)) == {"key"}
    own = write(tmp_path, one := issued())
    own.certificate.write_bytes(one.pem() + AUTHORITY.pem())
    assert certificates.read(own, name=NAME, at=NOW).certificate.count(b"BEGIN") == 2


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    own = write(tmp_path, issued(identity.CONTROL_PLANE))
    own.key.write_text("nothing")
    own.authority.unlink()
    told = mistakes(own, at=NOW + timedelta(days=11))
    assert set(told) == {"certificate", "key", "authority"}
    assert "can't be read" in told["authority"]


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ((identity.of_metal("ams1-m2"),), "not ams1-m2.metal"),
        ((NAME, identity.CONTROL_PLANE), "nobody else"),
        (("*.metal.isoprof.internal",), "must name"),
    ],
)
def test_the_certificate_names_its_holder_alone(
    tmp_path: Path, names: tuple[str, ...], said: str
) -> None:
    assert said in mistakes(write(tmp_path, issued(*names)))["certificate"]


def test_time_counts(tmp_path: Path) -> None:
    own = write(tmp_path, issued())
    assert "expired at" in mistakes(own, NOW + timedelta(days=11))["certificate"]
    assert "not valid before" in mistakes(own, NOW - timedelta(days=1))["certificate"]
    # A clock ten minutes behind the issuer's is no reason to refuse.
    certificates.read(own, name=NAME, at=NOW - timedelta(minutes=10))


def test_a_key_with_a_password_is_refused(tmp_path: Path) -> None:
    one = issued()
    own = write(tmp_path, one)
    sealed = BestAvailableEncryption(b"password")
    own.key.write_bytes(one.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, sealed))
    assert "password" in mistakes(own)["key"]


def test_new_files_are_taken_in_when_they_are_whole(tmp_path: Path) -> None:
    own = write(tmp_path, issued())
    held = Certificates(own, name=NAME, now=lambda: NOW)
    first = held.current
    assert not held.look()
    new = issued(days=20)
    # The key comes first, and for a while fits nothing.
    own.key.write_bytes(new.key_pem())
    with capture_logs() as logs:
        assert not held.look()
        assert not held.look()
    # Told once for what is there, not at every look.
    assert [one["event"] for one in logs] == ["certificates_unusable"]
    assert logs[0]["mistakes"] == ["key: is not the key of the certificate"]
    assert held.current is first
    own.certificate.write_bytes(new.pem())
    assert held.look()
    assert held.current.certificate == new.pem()
    own.authority.unlink()
    assert not held.look()
    assert held.current.certificate == new.pem()


def test_a_set_that_names_another_is_never_taken_in(tmp_path: Path) -> None:
    own = write(tmp_path, issued())
    held = Certificates(own, name=NAME, now=lambda: NOW)
    write(tmp_path, issued(identity.CONTROL_PLANE))
    assert not held.look()
    assert held.current.expires_at == NOW + timedelta(days=10)


def test_the_end_is_told_before_it_comes_and_when_it_does(tmp_path: Path) -> None:
    at = [NOW]
    held = Certificates(write(tmp_path, issued()), name=NAME, now=lambda: at[0])
    with capture_logs() as logs:
        for days in (1, 7, 9, 9.5, 11, 12):
            at[0] = NOW + timedelta(days=days)
            held.look()
    assert [one["event"] for one in logs] == ["certificate_expires_soon", "certificate_expired"]


def test_a_file_that_becomes_readable_later_is_taken_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when root writes it and then gives it away."""
    own = write(tmp_path, issued())
    held = Certificates(own, name=NAME, now=lambda: NOW)
    write(tmp_path, new := issued(days=20))
    with monkeypatch.context() as patch, capture_logs() as logs:
        patch.setattr("pathlib.Path.read_bytes", _refused)
        assert not held.look()
    assert [one["event"] for one in logs] == ["certificates_unusable"]
    own.key.chmod(0o640)
    assert held.look()
    assert held.current.certificate == new.pem()


def _refused(_path: object) -> bytes:
    raise PermissionError("not yours")
