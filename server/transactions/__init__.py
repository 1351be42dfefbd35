"""Transaction coordinators: which transactions there are, what each of them touched, and how each ends.

This package may use the metadata store, managed ledgers, namespaces, the configuration and `process`. Topics use this
package to ask whether a transaction is alive; the broker, its ports, admin calls, statistics and programs use the
coordinators. This package reaches topics and subscriptions only by the protocol `Participants`.
"""
