"""How many properties a topic or a subscription may have. Properties are part of the topic's or subscription's record
in the metadata store. That record is written again whenever the topic gets a ledger or the subscription moves, so it
must stay small (ZooKeeper allows 1 MB). Rules only.

Apache has no such limit: its broker fails when it writes a record that is too large.
"""

from collections.abc import Mapping

PROPERTIES_MAX = 1_000
PROPERTIES_BYTES_MAX = 64 << 10
"""The most bytes that all keys and values together may have, in UTF-8."""


def fault_of_properties(what: str, properties: Mapping[str, str]) -> str | None:
    """Returns why `what` (a topic or a subscription) may not have these properties; None when it may."""
    if len(properties) > PROPERTIES_MAX:
        return f"A {what} may have {PROPERTIES_MAX} properties"
    size = sum(
        len(key.encode(errors="replace")) + len(value.encode(errors="replace")) for key, value in properties.items()
    )
    if size > PROPERTIES_BYTES_MAX:
        return f"The properties of a {what} may have {PROPERTIES_BYTES_MAX} bytes, these have {size}"
    return None
