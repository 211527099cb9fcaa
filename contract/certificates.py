"""The certificate a process shows and the authority it trusts: read from files, and watched.

Files may be replaced while the process runs. A new set counts once it is whole: the key fits the
certificate, the name is the right one. Until then the last good set stays in use.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog
from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
)

from contract import identity
from contract.faults import FieldError

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from pathlib import Path

LOOK_S = 1.0
# Of a certificate's life; less than this left, and the log says so.
_SOON = 0.2

log = structlog.get_logger(__name__)


class CertificatesInvalid(ValueError):  # noqa: N818 - a statement about the files
    """Every mistake in a set of files, each by the field of ``Files`` it is in."""

    def __init__(self, mistakes: list[FieldError]) -> None:
        super().__init__("; ".join(f"{one.pointer}: {one.message}" for one in mistakes))
        self.mistakes = tuple(mistakes)


@dataclass(frozen=True, kw_only=True)
class Files:
    """Where a set is, each file in PEM.

    Args:
        certificate: one's own first, then those between it and the authority.
        key: the private key of the first one, without a password.
        authority: every authority whose certificates are believed, old and new.
    """

    certificate: Path
    key: Path
    authority: Path


@dataclass(frozen=True, kw_only=True, repr=False)
class Material:
    """A whole set, as gRPC takes it."""

    certificate: bytes
    key: bytes
    authority: bytes
    begins_at: datetime
    expires_at: datetime


def read(files: Files, *, name: str, at: datetime) -> Material:
    """Read a set and check that it is usable.

    Args:
        name: whom the certificate must name, as in ``contract.identity``.
        at: now, with its time zone.

    Raises:
        CertificatesInvalid: a file is missing or is not what it should be, the key is another's,
            the certificate names somebody else or is not valid now.
    """
    mistakes: list[FieldError] = []

    def text(field: str, path: Path) -> bytes:
        try:
            return path.read_bytes()
        except OSError as error:
            mistakes.append(FieldError(pointer=field, message=f"can't be read: {error}"))
            return b""

    certificate = text("certificate", files.certificate)
    key = text("key", files.key)
    authority = text("authority", files.authority)
    own = _certificates("certificate", certificate, mistakes)
    public = _public_key(key, mistakes) if key else None
    begins_at = expires_at = at
    if own:
        begins_at, expires_at = own[0].not_valid_before_utc, own[0].not_valid_after_utc
        mistakes += _mistakes_in(own[0], name=name, at=at)
        if public is not None and public != _spki(own[0].public_key()):
            message = "is not the key of the certificate"
            mistakes.append(FieldError(pointer="key", message=message))
    _certificates("authority", authority, mistakes)
    if mistakes:
        raise CertificatesInvalid(mistakes)
    return Material(
        certificate=certificate,
        key=key,
        authority=authority,
        begins_at=begins_at,
        expires_at=expires_at,
    )


def dns_names(certificate: x509.Certificate) -> tuple[str, ...]:
    """Return the DNS names a certificate carries; ValueError when its extensions can't be read."""
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return ()
    return tuple(found.value.get_values_for_type(x509.DNSName))


def _certificates(
    field: str, pem: bytes, mistakes: list[FieldError]
) -> tuple[x509.Certificate, ...]:
    if not pem:
        return ()
    try:
        return tuple(x509.load_pem_x509_certificates(pem))
    except ValueError:
        mistakes.append(FieldError(pointer=field, message="holds no certificate in PEM"))
        return ()


def _public_key(pem: bytes, mistakes: list[FieldError]) -> bytes | None:
    try:
        return _spki(load_pem_private_key(pem, password=None).public_key())
    except (ValueError, TypeError):  # TypeError: it has a password.
        message = "holds no private key in PEM, or one with a password"
        mistakes.append(FieldError(pointer="key", message=message))
        return None


def _spki(key: object) -> bytes:
    encoded = key.public_bytes(  # type: ignore[attr-defined]
        Encoding.DER, PublicFormat.SubjectPublicKeyInfo
    )
    return bytes(encoded)


def _mistakes_in(own: x509.Certificate, *, name: str, at: datetime) -> list[FieldError]:
    told = []
    try:
        names = dns_names(own)
    except ValueError:
        names = ()
    if identity.holder(names) != name:
        told.append(f"must name {name} and nobody else, not {', '.join(names) or 'nobody'}")
    if at < own.not_valid_before_utc:
        told.append(f"is not valid before {own.not_valid_before_utc.isoformat()}")
    if at > own.not_valid_after_utc:
        told.append(f"expired at {own.not_valid_after_utc.isoformat()}")
    return [FieldError(pointer="certificate", message=message) for message in told]


class Certificates:
    """One process's set, kept current. ``current`` may be read from any thread.

    Args:
        now: the time, with its time zone.

    Raises:
        CertificatesInvalid: as ``read``; only here, later a bad set is logged and passed over.
    """

    def __init__(self, files: Files, *, name: str, now: Callable[[], datetime]) -> None:
        self._files = files
        self._name = name
        self._now = now
        self._seen = self._stamp()
        self._told: str | None = None
        self.current = read(files, name=name, at=now())

    def look(self) -> bool:
        """Take in files that changed; True when there is a new set."""
        stamp = self._stamp()
        if stamp == self._seen:
            self._tell_expiry()
            return False
        # Stamped before it is read: what is written meanwhile is seen by the next look.
        self._seen = stamp
        try:
            read_now = read(self._files, name=self._name, at=self._now())
        except CertificatesInvalid as invalid:
            log.error(  # noqa: TRY400 - the mistakes are all there is to say
                "certificates_unusable",
                mistakes=[f"{m.pointer}: {m.message}" for m in invalid.mistakes],
            )
            return False
        if read_now == self.current:
            return False
        self.current, self._told = read_now, None
        log.info("certificates_renewed", expires_at=read_now.expires_at.isoformat())
        self._tell_expiry()
        return True

    async def watch(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            self.look()

    def _tell_expiry(self) -> None:
        """Log, once each, that the end is near and that it came."""
        held, now = self.current, self._now()
        left = held.expires_at - now
        if now > held.expires_at:
            event = "certificate_expired"
        elif left < _SOON * (held.expires_at - held.begins_at):
            event = "certificate_expires_soon"
        else:
            return
        if event != self._told:
            self._told = event
            log.warning(event, expires_at=held.expires_at.isoformat())

    def _stamp(self) -> tuple[object, ...]:
        files = self._files
        return tuple(_stamp(path) for path in (files.certificate, files.key, files.authority))


def _stamp(path: Path) -> object:
    try:
        status = path.stat()
    except OSError:
        return None
    # Its change, not its modification: a file may first be there and then become readable.
    return status.st_ctime_ns, status.st_ino, status.st_size
