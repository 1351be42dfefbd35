"""The call that shows the acknowledgements of a subscription as a map. Only Magnetar has it: where there are many
ranges of acknowledged entries, internalStats lists the first of them, and a map has room for all."""

from magnetar.server.admin import bodies
from magnetar.server.admin.subscription_requests import SUBSCRIPTION, refuse_partitioned, subscription_of
from magnetar.server.stats.internal_stats import read_position_of
from magnetar.server.web.calls import Answer, Call, Refusal, Route
from magnetar.server.web.needs import topic
from magnetar.server.web.places import Place

CELLS_DEFAULT = "1000"
CELLS_MAX = 10_000


async def ack_map(call: Call) -> Answer:
    """Answers with the entries behind the mark-delete position, cut into at most `cells` cells, and how many entries of
    each are acknowledged."""
    await refuse_partitioned(call, "The acknowledgements of a partitioned topic are told by its partitions")
    cells = bodies.integer(call.query.get("cells", CELLS_DEFAULT), what="cells")
    if not 1 <= cells <= CELLS_MAX:
        raise Refusal(400, f"cells must be from 1 to {CELLS_MAX}, not {cells}")
    subscription = await subscription_of(call)
    cursor = subscription.cursor
    read_position = read_position_of(cursor, subscription)
    found = cursor.ack_map(read_position, cells)
    return {
        "markDeletePosition": str(cursor.mark_delete),
        "readPosition": str(read_position),
        "entries": found.entries,
        "toLastAcked": found.to_last_acked,
        "entriesPerCell": found.entries_per_cell,
        "acked": found.acked,
        "ackedRanges": cursor.number_of_holes,
        "entriesInHoles": cursor.entries_in_holes,
    }


ROUTES = (Route("GET", f"{SUBSCRIPTION}/ackMap", ack_map, topic("GET_STATS"), Place.TOPIC),)
