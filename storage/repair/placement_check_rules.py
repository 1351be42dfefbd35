"""Checks whether the ensembles of a ledger are spread over as many racks as the configuration asks for. No I/O.

Source: RackawareEnsemblePlacementPolicy.isEnsembleAdheringToPlacementPolicy of BookKeeper 4.17.
"""

from collections.abc import Mapping, Sequence

from magnetar.storage.ledger.rack_placement_rules import DEFAULT_RACK
from pulsar_proto.records.ledger_record import LedgerMetadata


def is_spread(members: Sequence[str], write_quorum: int, racks: Mapping[str, str], racks_min: int) -> bool:
    """Returns whether every write set of the ensemble has bookies in `racks_min` racks, or, if the write quorum is
    smaller than `racks_min`, whether each bookie of a write set is in a rack of its own. `racks` maps bookies to racks;
    a bookie that is missing there counts as a bookie in DEFAULT_RACK."""
    wanted = min(racks_min, write_quorum)
    size = len(members)
    return all(
        len({racks.get(members[(start + i) % size], DEFAULT_RACK) for i in range(write_quorum)}) >= wanted
        for start in range(size)
    )


def badly_placed(metadata: LedgerMetadata, racks: Mapping[str, str], racks_min: int) -> list[int]:
    """Returns the first entry id of each fragment that is not spread over enough racks."""
    return [
        first
        for first, members in metadata.ensembles
        if not is_spread(members, metadata.write_quorum, racks, racks_min)
    ]
