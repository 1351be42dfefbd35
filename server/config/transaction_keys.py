"""The keys of broker.conf about transactions. `TransactionSettings` describes each key."""

from magnetar.server.config.key_kinds import MAX_FRAME_BYTES, MAX_INT, Key, switch, text, whole

_ONLY_CLASS = "of which there is only this one, because classes of Java are not loaded"


def _class(name: str, java_class: str) -> Key:
    """Returns the key of a provider's class. Another class than Apache's own is refused, because it would keep
    transactions elsewhere, and nobody would find them there."""
    return text(name, rf"(.*\.)?{java_class}", f"{java_class}, {_ONLY_CLASS}")


def _batched(prefix: str) -> tuple[Key, ...]:
    """Returns the keys that say how the records of a log are put together in entries."""
    return (
        switch(f"{prefix}BatchedWriteEnabled"),
        whole(f"{prefix}BatchedWriteMaxRecords", 1, MAX_INT, "records"),
        whole(f"{prefix}BatchedWriteMaxSize", 1, MAX_FRAME_BYTES, "bytes"),
        whole(f"{prefix}BatchedWriteMaxDelayInMillis", 0, MAX_INT, "milliseconds"),
    )


TRANSACTIONS = (
    switch("transactionCoordinatorEnabled"),
    _class("transactionMetadataStoreProviderClassName", "MLTransactionMetadataStoreProvider"),
    _class("transactionBufferProviderClassName", "TopicTransactionBufferProvider"),
    _class("transactionPendingAckStoreProviderClassName", "MLPendingAckStoreProvider"),
    whole("maxActiveTransactionsPerCoordinator", 0, MAX_INT, "transactions"),
    whole("transactionBufferClientMaxConcurrentRequests", 1, MAX_INT),
    whole("transactionBufferClientOperationTimeoutInMills", 1, MAX_INT, "milliseconds"),
    whole("transactionBufferSnapshotMaxTransactionCount", 1, MAX_INT),
    whole("transactionBufferSnapshotMinTimeInMillis", 1, MAX_INT, "milliseconds"),
    switch("transactionBufferSegmentedSnapshotEnabled"),
    whole("transactionBufferSnapshotSegmentSize", 1, MAX_FRAME_BYTES, "bytes"),
    *_batched("transactionLog"),
    *_batched("transactionPendingAck"),
    whole("transactionPendingAckLogIndexMinLag", 1, MAX_INT, "records"),
)
