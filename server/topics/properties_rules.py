"""Limits the number and the size of the properties that a topic or a subscription may have. Properties are part of the
topic's or subscription's record in the metadata store. That record is written again whenever the topic gets a ledger or
the subscription moves, so the record must stay small (ZooKeeper allows 1 MB). Does no I/O.

Apache's broker has no such limit, and fails when it writes a record that is too large.
"""

from collections.abc import Mapping

PROPERTIES_MAX = 1_000
PROPERTIES_BYTES_MAX = 64 << 10
"""The most bytes that all keys and values together may have, in UTF-8."""


def fault_of_properties(what: str, properties: Mapping[str, str]) -> str | None:
    """Returns the reason why these properties are refused, or None when they are accepted. `what` is the noun for the
    text: a topic or a subscription."""
    if len(properties) > PROPERTIES_MAX:
        return f"A {what} may have {PROPERTIES_MAX} properties"
    size = sum(
        len(key.encode(errors="replace")) + len(value.encode(errors="replace")) for key, value in properties.items()
    )
    if size > PROPERTIES_BYTES_MAX:
        return f"The properties of a {what} may have {PROPERTIES_BYTES_MAX} bytes, these have {size}"
    return None
