"""Makes authorities and certificates when tests need them; none is ever kept in the tree."""

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

VALID_DAYS = 2
USAGES = (
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


@dataclass(frozen=True, slots=True)
class Certificate:
    """The PEM files of a certificate and its key."""

    certificate: Path
    key: Path


class Authority:
    """An authority that signs certificates into a folder. `path` is its own certificate."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = _builder(self._name, self._name, self._key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        signs = dict.fromkeys(USAGES, False) | {"key_cert_sign": True, "crl_sign": True}
        builder = builder.add_extension(x509.KeyUsage(**signs), critical=True)
        own_id = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        builder = builder.add_extension(own_id, critical=False)
        self.path = folder / f"{name}.pem"
        self.path.write_bytes(builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM))

    def issue(self, common_name: str, file: str | None = None, *, key_identifier: bool = True) -> Certificate:
        """Makes a certificate for a server on the loopback address, or for a client. `file` is the name of its files,
        by default `common_name`. Without `key_identifier` it does not name the authority's key, as many that
        people make by hand."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name(
            [
                x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Tests"),
                x509.NameAttribute(NameOID.COMMON_NAME, common_name),
            ]
        )
        addresses = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        builder = _builder(subject, self._name, key.public_key())
        builder = builder.add_extension(x509.SubjectAlternativeName(addresses), critical=False)
        if key_identifier:
            key_id = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
            builder = builder.add_extension(key_id, critical=False)
        made = Certificate(
            self._folder / f"{file or common_name}.cert.pem", self._folder / f"{file or common_name}.key.pem"
        )
        made.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        made.certificate.write_bytes(builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM))
        return made


def _builder(subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=VALID_DAYS))
    )
