"""Whether ensembles are spread over racks as asked. Rules only, no I/O.

Source: RackawareEnsemblePlacementPolicy.isEnsembleAdheringToPlacementPolicy of BookKeeper 4.17 (facts 7).
"""

from collections.abc import Mapping, Sequence

from magnetar.storage.ledger.rack_placement_rules import DEFAULT_RACK
from pulsar_proto.records.ledger_record import LedgerMetadata


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
