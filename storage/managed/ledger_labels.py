"""The custom metadata of a managed ledger's ledgers: it names the managed ledger, and the groups of bookies to place
the ledgers on.

Source: LedgerMetadataUtils, ManagedLedgerImpl.asyncCreateLedger.
"""

from magnetar.storage.ledger.isolation_rules import POLICY_KEY, BookieGroups


def ledger_labels(name: str, groups: BookieGroups | None = None) -> dict[str, bytes]:
    """Returns the custom metadata of the ledgers of the managed ledger of this name."""
    labels = {
        "application": b"pulsar",
        "component": b"managed-ledger",
        "pulsar/managed-ledger": name.encode(),
    }
    return labels if groups is None else {POLICY_KEY: groups.metadata(), **labels}
