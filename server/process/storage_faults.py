"""Translates the faults of the storage and the metadata into the errors that are sent to clients."""

from collections.abc import Iterator
from contextlib import contextmanager

from magnetar.metadata.errors import MetadataError
from magnetar.storage.managed.managed_ledger_errors import ManagedLedgerError
from pulsar_proto.errors import MetadataFault, PulsarError, error_of_code


def told_as(error: ManagedLedgerError | MetadataError) -> PulsarError:
    """Returns the error of the client protocol that stands for a fault of the storage."""
    if isinstance(error, ManagedLedgerError):
        return error_of_code(error.code, str(error))
    return MetadataFault(str(error))


@contextmanager
def storage_faults_told() -> Iterator[None]:
    """A context manager that raises a PulsarError in place of a ManagedLedgerError or MetadataError from its block."""
    try:
        yield
    except (ManagedLedgerError, MetadataError) as error:
        raise told_as(error) from error
