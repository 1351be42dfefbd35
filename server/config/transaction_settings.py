"""The settings of transactions: of their coordinators, of topics' transaction buffers, and of the logs of pending
acknowledgements."""

from dataclasses import dataclass

METADATA_STORE_CLASS = "org.apache.pulsar.transaction.coordinator.impl.MLTransactionMetadataStoreProvider"
BUFFER_CLASS = "org.apache.pulsar.broker.transaction.buffer.impl.TopicTransactionBufferProvider"
PENDING_ACK_CLASS = "org.apache.pulsar.broker.transaction.pendingack.impl.MLPendingAckStoreProvider"


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    """The settings of transactions. Each field has the snake_case name of a key in broker.conf and Pulsar 4.0's
    default."""

    transaction_coordinator_enabled: bool = False
    """Whether clients may use transactions. While this is off, every command of a transaction is refused, and topics
    take no messages and acknowledgements of transactions. A standalone server stores nothing for transactions before a
    client uses one."""
    transaction_metadata_store_provider_class_name: str = METADATA_STORE_CLASS
    """The class that stores the state of transactions. The one value keeps it in a managed ledger."""
    transaction_buffer_provider_class_name: str = BUFFER_CLASS
    """The class that keeps a topic's transactions. The one value keeps the messages in the topic itself."""
    transaction_pending_ack_store_provider_class_name: str = PENDING_ACK_CLASS
    """The class that stores the acknowledgements of open transactions. The one value keeps them in a managed ledger."""
    max_active_transactions_per_coordinator: int = 0
    """How many transactions of a coordinator may be open at the same time; 0 sets no limit. A client that begins one
    more is refused, and may try again later."""

    # The following fields are about the coordinator's way to the topics and subscriptions of a transaction.
    transaction_buffer_client_max_concurrent_requests: int = 1_000
    """How many topics and subscriptions a coordinator tells about the ends of transactions at the same time; the others
    wait. A value below 100 counts as 100."""
    transaction_buffer_client_operation_timeout_in_mills: int = 3_000
    """How long a topic or subscription may take to answer that a transaction has ended there. After this time the
    coordinator asks again."""

    # The following fields are about the snapshots of topics' transaction buffers.
    transaction_buffer_snapshot_max_transaction_count: int = 1_000
    """A topic's snapshot is written when the topic's read limit has moved this many times since the last one."""
    transaction_buffer_snapshot_min_time_in_millis: int = 5_000
    """A topic's snapshot is written this long after the last one if the topic's read limit has moved at all."""
    transaction_buffer_segmented_snapshot_enabled: bool = False
    """Whether snapshots are written in segments, which topics with many aborted transactions need."""
    transaction_buffer_snapshot_segment_size: int = 262_144
    """The size of a snapshot's segment, in bytes."""

    # The following fields are about the logs of coordinators and of pending acknowledgements.
    transaction_log_batched_write_enabled: bool = False
    """Whether a coordinator stores several records as one entry of its log. A change holds for logs that are opened
    later."""
    transaction_log_batched_write_max_records: int = 512
    """How many records an entry of a coordinator's log may hold."""
    transaction_log_batched_write_max_size: int = 4_194_304
    """How large an entry of a coordinator's log may become, in bytes. A larger record is stored alone."""
    transaction_log_batched_write_max_delay_in_millis: int = 1
    """How long a coordinator's record waits for more records before all are stored as one entry."""
    transaction_pending_ack_batched_write_enabled: bool = False
    """Whether a subscription stores several pending acknowledgements as one entry of their log. A change holds for logs
    that are opened later."""
    transaction_pending_ack_batched_write_max_records: int = 512
    """How many records an entry of a log of pending acknowledgements may hold."""
    transaction_pending_ack_batched_write_max_size: int = 4_194_304
    """How large an entry of a log of pending acknowledgements may become, in bytes. A larger record is stored alone."""
    transaction_pending_ack_batched_write_max_delay_in_millis: int = 1
    """How long a pending acknowledgement waits for more of them before all are stored as one entry."""
    transaction_pending_ack_log_index_min_lag: int = 500
    """How many records of pending acknowledgements are stored before it is looked at again which can be deleted."""
