"""Whether ensembles are spread over racks as asked. Rules only, no I/O.

Source: RackawareEnsemblePlacementPolicy.isEnsembleAdheringToPlacementPolicy of BookKeeper 4.17, and Pulsar's record
`/bookies` (facts 7).
"""

import json
from collections.abc import Mapping, Sequence

from pulsar_proto.errors import MalformedRecord
from pulsar_proto.ledger_record import LedgerMetadata

DEFAULT_RACK = "/default-rack"


def racks_of(record: bytes | None) -> dict[str, str]:
    """Rack by bookie id, from Pulsar's `{group: {bookie: {"rack": …}}}`. Raises MalformedRecord."""
    if not record:
        return {}
    try:
        groups = json.loads(record)
        return {
            bookie: str(info["rack"])
            for bookies in groups.values()
            for bookie, info in bookies.items()
            if info.get("rack")
        }
    except (ValueError, AttributeError, TypeError) as error:
        raise MalformedRecord(f"the record of the bookies' racks does not decode: {error}") from None


def is_spread(members: Sequence[str], write_quorum: int, racks: Mapping[str, str], racks_min: int) -> bool:
    """Every write set of the ensemble has bookies of enough racks."""
    wanted = min(racks_min, write_quorum)
    size = len(members)
    return all(
        len({racks.get(members[(start + i) % size], DEFAULT_RACK) for i in range(write_quorum)}) >= wanted
        for start in range(size)
    )


def badly_placed(metadata: LedgerMetadata, racks: Mapping[str, str], racks_min: int) -> list[int]:
    """First entries of the fragments that are not spread."""
    return [
        first
        for first, members in metadata.ensembles
        if not is_spread(members, metadata.write_quorum, racks, racks_min)
    ]
