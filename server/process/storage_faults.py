"""Faults of the storage as clients are told of them."""

from collections.abc import Iterator
from contextlib import contextmanager

from magnetar.metadata.errors import MetadataError
from magnetar.storage.managed.managed_ledger_errors import ManagedLedgerError
from pulsar_proto.errors import MetadataFault, PulsarError, error_of_code


def told_as(error: ManagedLedgerError | MetadataError) -> PulsarError:
    """The error of the client protocol that says the same."""
    if isinstance(error, ManagedLedgerError):
        return error_of_code(error.code, str(error))
    return MetadataFault(str(error))


@contextmanager
def storage_faults_told() -> Iterator[None]:
    """Turns what the storage raises inside into PulsarError."""
    try:
        yield
    except (ManagedLedgerError, MetadataError) as error:
        raise told_as(error) from error
