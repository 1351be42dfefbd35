"""What a ledger's record says about the ledger: who made it and for what, whether it is closed, and how large it is.

Source: LedgerMetadataUtils, which has the keys of the custom metadata that Pulsar writes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from pulsar_proto.errors import InvalidTopicName, MalformedRecord
from pulsar_proto.names import TopicName, topic_of_managed_ledger, topic_of_schema
from pulsar_proto.records.ledger_record import LedgerMetadata

PULSAR = b"pulsar"


class Component(StrEnum):
    """The part of a broker that made a ledger."""

    TOPIC = "managed-ledger"
    CURSOR = "cursor"
    COMPACTED = "compacted-ledger"
    SCHEMA = "schema"
    BUCKET = "delayed-index-bucket"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class LedgerFacts:
    """A ledger, by its record alone."""

    ledger_id: int
    path: str
    version: int
    created_ms: int
    component: Component
    owner: str = ""
    """The name of the managed ledger, as in "public/default/persistent/topic"; for a schema its id, as in
    "public/default/topic". Empty for ledgers that are not known to be Pulsar's."""
    cursor: str = ""
    """The name of the subscription, for ledgers of cursors and of delayed messages."""
    is_closed: bool = True
    entries: int | None = None
    """None for a ledger that is not closed."""
    bytes: int | None = None
    fault: str = ""
    """Why the record cannot be read."""
    labels: str = ""
    """The keys of the custom metadata of an unknown ledger, for people."""

    @property
    def namespace(self) -> str:
        return "/".join(self.owner.split("/")[:2])

    @property
    def topic(self) -> str:
        """Returns the full name of the topic that the ledger was made for."""
        if self.component is Component.SCHEMA:
            return topic_of_schema(self.owner)
        return topic_of_managed_ledger(self.owner)


def facts_of(ledger_id: int, path: str, value: bytes, version: int, created_ms: int) -> LedgerFacts:
    """Returns the facts about a ledger. A record that cannot be read is a fact, too (`LedgerFacts.fault`)."""
    try:
        metadata = LedgerMetadata.parse(ledger_id, value)
    except MalformedRecord as error:
        fault = str(error) if value else "the record is empty"
        return LedgerFacts(ledger_id, path, version, created_ms, Component.UNKNOWN, fault=fault)
    component, owner, cursor = _made_for(metadata.custom_metadata)
    closed = metadata.is_closed
    return LedgerFacts(
        ledger_id,
        path,
        version,
        metadata.ctime or created_ms,
        component,
        owner,
        cursor,
        closed,
        metadata.last_entry_id + 1 if closed else None,
        metadata.length if closed else None,
        labels=", ".join(sorted(metadata.custom_metadata)),
    )


def _made_for(labels: Mapping[str, bytes]) -> tuple[Component, str, str]:
    """Returns the component, the owner and the cursor that a ledger's custom metadata names. A ledger without
    `application=pulsar`, or with names that do not make sense, is unknown."""
    if labels.get("application") != PULSAR:
        return Component.UNKNOWN, "", ""
    texts = {key: value.decode("utf-8", "replace") for key, value in labels.items()}
    component, owner, cursor = Component.UNKNOWN, "", ""
    match texts.get("component"):
        case "managed-ledger":
            cursor = texts.get("pulsar/cursor", "")
            component = Component.CURSOR if cursor else Component.TOPIC
            owner = texts.get("pulsar/managed-ledger", "")
        case "compacted-ledger":
            component = Component.COMPACTED
            owner = managed_ledger_of(texts.get("pulsar/compactedTopic", ""))
        case "delayed-index-bucket":
            component = Component.BUCKET
            owner = managed_ledger_of(texts.get("pulsar/delayedIndexTopic", ""))
            cursor = texts.get("pulsar/delayedIndexCursor", "")
        case "schema":
            component, owner = Component.SCHEMA, texts.get("pulsar/schemaId", "")
    parts = 3 if component is Component.SCHEMA else 4
    if len(owner.split("/")) < parts or not all(owner.split("/")):
        return Component.UNKNOWN, "", ""
    return component, owner, cursor


def managed_ledger_of(topic: str) -> str:
    """Returns the managed ledger's name of a topic that a label names in full, or by its managed ledger's name; empty
    for other texts."""
    try:
        return TopicName.parse(topic).managed_ledger_name if "://" in topic else topic
    except InvalidTopicName:
        return ""
