"""`check connection`: whether a client could work with each address of the service URL. It needs no client library: it
connects, makes TLS, and logs in by CONNECT as a client does."""

import re
from datetime import UTC, datetime

from magnetar.server.tools.connection.settings import ConnectionSettings
from magnetar.server.tools.connection.tls_context import tls_context
from magnetar.server.tools.messages.check_measures import CERTIFICATE, CONNECT
from magnetar.server.tools.messages.check_rules import Outcome, State, Thresholds
from magnetar.server.tools.messages.handshake import ChallengeError, greet, reason_of
from magnetar.server.tools.messages.message_client import BINARY_SCHEMES, addresses
from magnetar.server.tools.messages.tool_errors import UsageError

BEFORE_NUMBER = re.compile(r"(?<=Server)(?=\d)")
"""Where a server's version gets a blank: Apache's brokers call themselves "Pulsar Server4.0.7" (ServerCnx), and
Magnetar's brokers follow that form."""


def check_connection(outcome: Outcome, settings: ConnectionSettings, thresholds: Thresholds, timeout_s: float) -> None:
    """Adds to the outcome what was found at every address: each of them has to work."""
    url = settings.broker_service_url
    if not url.startswith(BINARY_SCHEMES):
        raise UsageError(f"--service-url: '{url}' is no address of the client protocol such as pulsar://127.0.0.1:6650")
    context = tls_context(settings) if url.startswith("pulsar+ssl://") else None
    longest_s = 0.0
    expiry: datetime | None = None
    versions: set[str] = set()
    for host, port in addresses(url):
        try:
            greeting = greet(host, port, context, settings.credentials, timeout_s)
        except OSError as error:
            outcome.fail(State.CRITICAL, f"{host}:{port}: {reason_of(error)}")
            continue
        except ChallengeError as error:
            outcome.fail(State.UNKNOWN, f"{host}:{port}: {error}, which this check cannot do")
            continue
        longest_s = max(longest_s, greeting.seconds)
        versions.add(BEFORE_NUMBER.sub(" ", greeting.server_version, count=1))
        if greeting.certificate is not None:
            expires = _expiry(greeting.certificate)
            expiry = expires if expiry is None else min(expiry, expires)
    if versions:
        outcome.text = "; ".join(filter(None, (outcome.text, ", ".join(sorted(versions)))))
        outcome.add(CONNECT, longest_s, thresholds)
    if expiry is not None:
        left_s = (expiry - datetime.now(UTC)).total_seconds()
        outcome.add(CERTIFICATE, left_s, thresholds)


def _expiry(certificate: bytes) -> datetime:
    from cryptography.x509 import load_der_x509_certificate

    return load_der_x509_certificate(certificate).not_valid_after_utc
