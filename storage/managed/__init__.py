"""Managed ledgers: a topic's endless log, made of one ledger after the other, and its cursors, which record what
subscriptions have acknowledged (docs/CURSORS.md).

`factory` opens and closes managed ledgers; a topic holds one as a `managed_ledger.ManagedLedger`. This package imports
`storage/ledger`, `metadata` and `pulsar_proto`, and knows nothing of topics, consumers or messages: entries are bytes.
The broker's packages in `server/` use this one.
"""
