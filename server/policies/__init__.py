"""The policies that hold for a namespace or a topic, resolved from the topic's policies, the namespace's record and
broker.conf. This package reads namespace records from the metadata store, and topic policies from the `__change_events`
topics. This package reaches these topics through a Protocol, because it may not import the package `topics`, which
imports this package.

This package may import the settings (`config`), the schema registry (`schema`) and the packages of the managed ledger.
Namespaces, topics and all packages that use topics use this package."""
