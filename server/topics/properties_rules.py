"""How many properties a topic or a subscription may have. They stand in its record of the metadata store, which is
written again whenever the topic gets a ledger or the subscription moves, so they must stay small enough for that (1 MB
in ZooKeeper). Rules only. Ours: Apache has no limit, and fails when it writes the record.
"""

from collections.abc import Mapping

PROPERTIES_MAX = 1_000
PROPERTIES_BYTES_MAX = 64 << 10
"""The size of all keys and values in UTF-8."""


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
