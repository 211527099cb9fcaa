"""Certificates as they are made for a development fleet and by ``services.certificates``."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from contract.identity import DOMAIN

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

# A clock that is behind must not find a fresh certificate in its future.
_BACKDATED = timedelta(hours=1)


@dataclass(frozen=True, kw_only=True, repr=False)
class Issued:
    """A certificate and its private key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    def pem(self) -> bytes:
        """The certificate alone."""
        return self.certificate.public_bytes(Encoding.PEM)

    def key_pem(self) -> bytes:
        """The key, unencrypted: it goes to a file only its owner may read."""
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    def issued(self, other: x509.Certificate) -> bool:
        """Whether this authority signed a certificate."""
        try:
            other.verify_directly_issued_by(self.certificate)
        except (InvalidSignature, ValueError, TypeError):
            return False
        return True


def authority(*, now: datetime, days: float) -> Issued:
    """Make an authority. It can issue names of our domain only, whoever gets hold of its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    serial = x509.random_serial_number()
    # A name of its own: two authorities of one name can't be told apart while both are believed.
    name = x509.Name(
        [x509.NameAttribute(NameOID.COMMON_NAME, f"isoprof authority {serial:040x}"[:64])]
    )
    builder = _builder(key, subject=name, issuer=name, serial=serial, now=now, days=days)
    usages = {"key_cert_sign", "crl_sign"}
    certificate = (
        builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(usages), critical=True)
        .add_extension(x509.NameConstraints([x509.DNSName(DOMAIN)], None), critical=True)
        .sign(key, hashes.SHA256())
    )
    return Issued(certificate=certificate, key=key)


def issue(by: Issued, *names: str, now: datetime, days: float) -> Issued:
    """Make a holder's certificate, good for both ends of a connection.

    Args:
        names: as in ``contract.identity``; one, except in tests.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    serial = x509.random_serial_number()
    builder = _builder(
        key,
        subject=x509.Name([]),
        issuer=by.certificate.subject,
        serial=serial,
        now=now,
        days=days,
    )
    both_ends = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    alternatives = x509.SubjectAlternativeName([x509.DNSName(name) for name in names])
    signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(by.key.public_key())
    certificate = (
        builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage({"digital_signature"}), critical=True)
        .add_extension(x509.ExtendedKeyUsage(both_ends), critical=False)
        # Critical, as there is no subject beside it.
        .add_extension(alternatives, critical=True)
        .add_extension(signer, critical=False)
        .sign(by.key, hashes.SHA256())
    )
    return Issued(certificate=certificate, key=key)


def _builder(
    key: ec.EllipticCurvePrivateKey,
    *,
    subject: x509.Name,
    issuer: x509.Name,
    serial: int,
    now: datetime,
    days: float,
) -> x509.CertificateBuilder:
    public = key.public_key()
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(serial)
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )


def _usage(allowed: Iterable[str]) -> x509.KeyUsage:
    known = (
        "digital_signature",
        "content_commitment",
        "key_encipherment",
        "data_encipherment",
        "key_agreement",
        "key_cert_sign",
        "crl_sign",
        "encipher_only",
        "decipher_only",
    )
    return x509.KeyUsage(**{usage: usage in allowed for usage in known})
