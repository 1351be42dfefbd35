"""The policies that hold for a namespace or a topic, resolved from the topic's policies, the namespace's record and
broker.conf. This room reads namespace records from the metadata store and topic policies from `__change_events`, whose
topics it reaches through a Protocol, because this room stands below the topics.

This room may use the settings (`config`), the schema registry (`schema`) and the rooms of the log; namespaces, topics
and everything above them use this room."""
