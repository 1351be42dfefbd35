"""Policies: what holds for a namespace and for a topic, resolved from the topic's policies, the namespace's record and
broker.conf. It reads namespace records from the metadata store and topic policies from `__change_events`, whose topics
it reaches through a Protocol, because this room stands below the topics.

It may use the settings (`config`), the schema registry (`schema`) and the rooms of the log; namespaces, topics and
everything above them use it.
"""
