"""Decides which SENDs a topic's policies refuse. The connection has made the checks that apply to every SEND before.

Sources: Producer.checkAndStartPublish, PersistentTopic.publishMessage (isExceedMaximumMessageSize,
isExceedMaximumDeliveryDelay).
"""

from dataclasses import dataclass
from typing import Self

from magnetar.server.policies.effective_policies import EffectivePolicies
from pulsar_proto.errors import MalformedFrame, MetadataFault, NotAllowed, PulsarError
from pulsar_proto.records.payload import parse_metadata


@dataclass(frozen=True, slots=True)
class SendChecks:
    """The checks that a topic's policies ask for. A limit of 0 means that there is no limit."""

    encryption_required: bool = False
    max_message_size: int = 0
    """The most bytes of a message's headers and body."""
    max_delay_ms: int = 0

    @classmethod
    def of(cls, policies: EffectivePolicies) -> Self | None:
        """Returns the checks of a topic, or None when the topic's policies ask for no check."""
        size = max(0, policies.max_message_size)
        delay_ms = max(0, policies.delayed_delivery_max_delay_in_millis) if policies.delayed_delivery_enabled else 0
        if not (policies.encryption_required or size or delay_ms):
            return None
        return cls(policies.encryption_required, size, delay_ms)

    def refusal(self, payload: bytes) -> PulsarError | None:
        """Returns the error with which a SEND with this payload is refused, or None when the SEND is accepted."""
        if self.max_message_size and len(payload) > self.max_message_size:
            return NotAllowed(f"Exceed maximum message size: {len(payload)} of {self.max_message_size} bytes")
        if not self.encryption_required and not self.max_delay_ms:
            return None
        try:
            metadata = parse_metadata(payload)
        except MalformedFrame as error:
            return MetadataFault(f"Messages must be understood: {error}")
        if self.encryption_required and not metadata.encryption_keys:
            return MetadataFault("Messages must be encrypted")
        if self.max_delay_ms and metadata.HasField("deliver_at_time"):
            delay_ms = metadata.deliver_at_time - metadata.publish_time
            if delay_ms > self.max_delay_ms:
                return NotAllowed(f"Exceeds max allowed delivery delay of {self.max_delay_ms} milliseconds")
        return None
