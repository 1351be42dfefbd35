"""The calls whose handlers are imported when somebody makes the first of them, because with all that they use they take
2 MB, and most servers never get such a call."""

import asyncio
from importlib import import_module

from magnetar.server.admin.call_paths import TOPIC
from magnetar.server.web.calls import Answer, Call, Handler, Route
from magnetar.server.web.needs import SUPERUSER, topic
from magnetar.server.web.places import Place

LEAKS = "/admin/v2/brokers/leaks"
LEAK_BACKUP = f"{LEAKS}/backups/{{name}}"
TOPIC_WHY = f"{TOPIC}/why"
PRODUCE = "/topics/{domain}/{tenant}/{namespace}/{topic}"


def late(module: str, name: str) -> Handler:
    """Returns the handler `name` of a module of this package. The module is imported on a thread, by the first call."""

    async def handler(call: Call) -> Answer:
        handlers = await asyncio.to_thread(import_module, f"{__package__}.{module}")
        return await getattr(handlers, name)(call)

    return handler


ROUTES = (
    Route("GET", LEAKS, late("leak_calls", "find"), SUPERUSER, Place.ASKED_BROKER),
    Route("GET", f"{LEAKS}/explanation", late("leak_calls", "explain"), SUPERUSER, Place.ASKED_BROKER),
    Route("POST", LEAK_BACKUP, late("leak_calls", "back_up"), SUPERUSER, Place.ASKED_BROKER),
    Route("POST", f"{LEAK_BACKUP}/removal", late("leak_calls", "remove"), SUPERUSER, Place.ASKED_BROKER),
    Route("POST", f"{LEAK_BACKUP}/restoration", late("leak_calls", "restore"), SUPERUSER, Place.ASKED_BROKER),
    Route("GET", TOPIC_WHY, late("why_calls", "why"), topic("GET_STATS"), Place.TOPIC_OR_PARTITIONS),
    Route("POST", PRODUCE, late("produce_calls", "publish"), topic("PRODUCE"), Place.TOPIC_OR_PARTITIONS),
    Route(
        "POST",
        f"{PRODUCE}/partitions/{{partition}}",
        late("produce_calls", "publish_to_partition"),
        topic("PRODUCE"),
        Place.TOPIC,
    ),
)
