"""The calls that tell how the bookies are: the room on their disks, and what auto-recovery has to do. Only Magnetar's
brokers have them; the answer of `/api/v1/bookie/info` begins like that of BookKeeper's bookie (BookieInfoService)."""

import asyncio
from importlib import import_module
from typing import TYPE_CHECKING, Any

from magnetar.server.admin import bookie_calls
from magnetar.server.process.turns import for_each
from magnetar.server.web.calls import Answer, Call, Refusal, Route
from magnetar.server.web.needs import SUPERUSER
from magnetar.server.web.places import Place
from pulsar_proto.errors import MalformedRecord
from pulsar_proto.wire.bookie_wire import BookieError

if TYPE_CHECKING:
    from magnetar.storage.repair.recovery_state import MarkedLedger, RecoveryState

Json = dict[str, Any]

ASKED_AT_ONCE = 32
"""How many bookies are asked for their disks at a time."""
NO_BOOKIE = "This broker stores nothing itself: GET /admin/v2/bookies/disks tells about the bookies"

NOTHING_TO_RECOVER = "A standalone server has one bookie, so a ledger has one copy: there is nothing to recover from"


async def own_disk(call: Call) -> Answer:
    """Answers with the free and the total bytes of a standalone server's disk, and when it refuses writes. Raises
    Refusal 404 at a broker of a cluster."""
    ask = call.broker.bookie_disk
    if ask is None or not call.broker.ownership.is_sole:
        raise Refusal(404, NO_BOOKIE)
    return await ask("")


async def disks(call: Call) -> Answer:
    """Answers with the free and the total bytes of each bookie, or with the reason why a bookie does not tell them."""
    ask = call.broker.bookie_disk
    ids = await bookie_calls.registered(call.broker.bookie_metadata)
    found: Json = dict.fromkeys(ids)

    async def fill(bookie: str) -> None:
        try:
            found[bookie] = {"error": "nobody can ask it"} if ask is None else await ask(bookie)
        except (LookupError, OSError, BookieError) as error:
            found[bookie] = {"error": str(error) or type(error).__name__}

    await for_each(ids, fill, at_once=ASKED_AT_ONCE)
    return found


async def auto_recovery(call: Call) -> Answer:
    """Answers with the ledgers that lack copies, and with who looks for them and who heals them. Raises Refusal 404 at
    a standalone server."""
    if call.broker.ownership.is_sole:
        raise Refusal(404, NOTHING_TO_RECOVER)
    # Most brokers are never asked, so they do without the modules of auto-recovery.
    repair = await asyncio.to_thread(import_module, "magnetar.storage.repair.recovery_state")
    try:
        state: RecoveryState = await repair.recovery_state(call.broker.bookie_metadata)
    except MalformedRecord as error:
        raise Refusal(500, f"A record of auto-recovery does not decode: {error}") from None
    return {
        "enabled": state.is_enabled,
        "auditor": state.auditor,
        "underreplicated": state.marked,
        "isCut": state.is_cut,
        "ledgers": [_as_json(each) for each in state.ledgers],
    }


def _as_json(ledger: "MarkedLedger") -> Json:
    return {
        "ledgerId": ledger.ledger_id,
        "missing": list(ledger.missing),
        "since": ledger.since_ms,
        "lockedBy": ledger.locked_by,
    }


ROUTES = (
    Route("GET", "/api/v1/bookie/info", own_disk, SUPERUSER, Place.ASKED_BROKER),
    Route("GET", "/admin/v2/bookies/disks", disks, SUPERUSER, Place.ANY_BROKER),
    Route("GET", "/admin/v2/bookies/autorecovery", auto_recovery, SUPERUSER, Place.ANY_BROKER),
)
