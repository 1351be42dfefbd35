"""Managed ledgers: a topic's endless log, made of one ledger after the other, and its cursors, which record what
subscriptions have acknowledged (docs/CURSORS.md).

`factory` opens and closes them, `managed_ledger.ManagedLedger` is what a topic holds. The room uses `storage/ledger`,
`metadata` and `pulsar_proto`, and knows nothing of topics, consumers or messages: entries are bytes. The broker's rooms
of `server/` use it.
"""
