"""How much may be attached to a topic or a subscription: properties stand in its record of the metadata store, which
is written again whenever the topic gets a ledger or the subscription moves, and must stay small enough for that (1 MB
in ZooKeeper). Rules only. Ours: Apache has no limit, and fails when the record is written.
"""

from collections.abc import Mapping

PROPERTIES_MAX = 1_000
PROPERTIES_BYTES_MAX = 64 << 10
"""Of keys and values in UTF-8."""


def fault_of_properties(what: str, properties: Mapping[str, str]) -> str | None:
    """Why `what`, a topic or a subscription, may not have all of these; None: it may."""
    if len(properties) > PROPERTIES_MAX:
        return f"A {what} may have {PROPERTIES_MAX} properties"
    size = sum(
        len(key.encode(errors="replace")) + len(value.encode(errors="replace")) for key, value in properties.items()
    )
    if size > PROPERTIES_BYTES_MAX:
        return f"The properties of a {what} may have {PROPERTIES_BYTES_MAX} bytes, these have {size}"
    return None
