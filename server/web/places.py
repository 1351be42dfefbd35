"""The brokers that can serve a call, as data: each route declares the broker of the cluster that answers its calls.
`owner_redirects` decides by this declaration whether a call is served here or redirected. A standalone broker owns
every topic, so it serves every call itself.

Source: PulsarWebResource (validateTopicOwnershipAsync, validateBundleOwnershipAsync, validateLeaderBrokerAsync,
maybeRedirectToBroker) and the methods of the resources that call it.
"""

from enum import Enum


class Place(Enum):
    """The broker that serves a call."""

    ANY_BROKER = "any broker"
    """The call is about records that all brokers share, or its handler asks other brokers itself."""
    ASKED_BROKER = "the asked broker"
    """The call is about the broker that was asked: the broker's load, metrics or configuration."""
    TOPIC = "owner of the topic"
    """The owner of the topic. A topic without an owner gets one, as if a client had looked it up."""
    TOPIC_OR_PARTITIONS = "owner of the topic, or any broker for a partitioned topic"
    """The owner of the topic, as for TOPIC. For a partitioned topic any broker serves the call, by asking the owners of
    the partitions."""
    BUNDLE = "owner of the bundle, or any broker while nobody owns it"
    FOUND_BUNDLE = "owner of the bundle, which gets one"
    BUNDLE_TO_UNLOAD = "leader while a destination is to be noted, then as owner of the bundle"
    """The owner of the bundle, as for BUNDLE. With the parameter `destinationBroker` the leader comes first, and notes
    where the bundle goes next."""
    NAMED_BROKER = "the broker that the path names"
    QUERIED_BROKER = "the broker that the parameter brokerId names, or the asked one"
    COORDINATOR = "broker of the transaction coordinator, or any broker for all coordinators"
    """The broker that runs the transaction coordinator that the path or the parameter `coordinatorId` names. Any broker
    serves a call that names no coordinator, by asking the others."""
