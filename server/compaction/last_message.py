"""The last message for a consumer that reads compacted: where the log's tail was compacted away, the last one kept.

Source: ServerCnx.getLargestBatchIndexWhenPossible, handleLastMessageIdFromCompactionService.
"""

from pulsar_proto.errors import MalformedRecord
from pulsar_proto.ids import EARLIEST, Position
from server.compaction.latest import last_batch_index
from server.compaction.topic_compaction import TopicCompaction
from storage.ledger.errors import LedgerError
from storage.managed.errors import ReadFault
from storage.managed.managed_ledger import ManagedLedger


async def last_kept(ledger: ManagedLedger, compaction: TopicCompaction) -> tuple[Position, int] | None:
    """(the message, its batch index or -1), EARLIEST where nothing was kept; None where the log has a later message,
    or nothing was compacted. Raises ReadFault."""
    horizon = compaction.horizon
    last = ledger.last_confirmed
    if horizon is None or (last > horizon and last >= ledger.first_position):
        return None
    compacted = await compaction.compacted()
    if compacted is None:
        return None
    try:
        kept = await compacted.last()
    except (LedgerError, MalformedRecord) as error:
        raise ReadFault(ledger.name, f"compacted ledger {compacted.ledger_id}: {error}") from error
    return (EARLIEST, -1) if kept is None else (kept.position, last_batch_index(kept.payload))
