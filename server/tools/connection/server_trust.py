"""Which servers a client trusts that speaks TLS to a broker, to a web port or to an issuer of tokens."""

import ssl


def trusting_context(trust_certs: str | None) -> ssl.SSLContext:
    """Returns the context of a client that trusts the authorities in a PEM file, without one those of the system.

    A certificate counts as it does for Java's clients. Since Python 3.13 `ssl.create_default_context` switches on
    OpenSSL's strict rules, by which a certificate without an authority key identifier is refused, though many that
    people made for their brokers have none. Raises OSError and ssl.SSLError for a file that cannot be used."""
    context = ssl.create_default_context(cafile=trust_certs or None)  # noqa: TID251
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context
