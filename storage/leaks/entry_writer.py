"""Gives stored entries back to the bookies of their ledger, with the bytes that the bookies had before."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence

from magnetar.storage.ledger.channel_lookup import ChannelOf, find_channel
from magnetar.storage.ledger.fragment_rules import fragment_of
from magnetar.storage.ledger.quorum_rules import write_set
from magnetar.storage.ledger.recovery_add import recovery_add
from pulsar_proto.records.entry_digest import master_key
from pulsar_proto.records.ledger_record import LedgerMetadata

GROUP_BYTES_MAX = 1 << 20
"""How many bytes of entries are sent before the bookies have confirmed them."""


class EntryWriter:
    def __init__(self, channel_of: ChannelOf, timeout_sec: float) -> None:
        self._channel_of = channel_of
        self._timeout_sec = timeout_sec

    async def add(self, metadata: LedgerMetadata, entries: AsyncIterator[tuple[int, bytes]]) -> None:
        """Stores the entries on every bookie of their write sets, and returns when all are durable. Raises
        LedgerError."""
        group: dict[int, bytes] = {}
        size = 0
        async for entry_id, entry in entries:
            group[entry_id] = entry
            size += len(entry)
            if size >= GROUP_BYTES_MAX:
                await self._add_group(metadata, group)
                group, size = {}, 0
        await self._add_group(metadata, group)

    async def _add_group(self, metadata: LedgerMetadata, group: Mapping[int, bytes]) -> None:
        ids_of: dict[str, list[int]] = {}
        for entry_id in group:
            members = fragment_of(metadata, entry_id).members
            for index in write_set(entry_id, metadata.ensemble_size, metadata.write_quorum):
                ids_of.setdefault(members[index], []).append(entry_id)
        await asyncio.gather(
            *(self._add_to(metadata, bookie, ids, [group[each] for each in ids]) for bookie, ids in ids_of.items())
        )

    async def _add_to(
        self, metadata: LedgerMetadata, bookie: str, ids: Sequence[int], entries: Sequence[bytes]
    ) -> None:
        key = master_key(metadata.password or b"")
        channel = find_channel(self._channel_of, bookie)
        await recovery_add(channel, bookie, metadata.ledger_id, key, ids, entries, self._timeout_sec)
