"""Acknowledgements that transactions have made on a subscription, and that take effect when the transaction commits:
who holds which message (`pending_ack_rules.py`), the log in which this is kept, and the object that joins both. The
package imports the managed ledger and asks coordinators through `KnownTransactions`; subscriptions and the admin API
use it.
"""
