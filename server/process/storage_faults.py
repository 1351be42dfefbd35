"""Translates the faults of the storage and the metadata into the errors that are sent to clients."""

from types import TracebackType

from magnetar.metadata.errors import MetadataError
from magnetar.storage.managed.managed_ledger_errors import ManagedLedgerError
from pulsar_proto.errors import MetadataFault, PulsarError, error_of_code


def told_as(error: ManagedLedgerError | MetadataError) -> PulsarError:
    """Returns the error of the client protocol that stands for a fault of the storage."""
    if isinstance(error, ManagedLedgerError):
        return error_of_code(error.code, str(error))
    return MetadataFault(str(error))


class _FaultsTold:
    """A class and no generator, because loading one topic enters it eight times: a generator costs a microsecond."""

    __slots__ = ()

    def __enter__(self) -> None:
        """Does nothing, because only the end of the block matters."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, ManagedLedgerError | MetadataError):
            raise told_as(error) from error


_FAULTS_TOLD = _FaultsTold()


def storage_faults_told() -> _FaultsTold:
    """A context manager that raises a PulsarError in place of a ManagedLedgerError or MetadataError from its block."""
    return _FAULTS_TOLD
