"""The calls on bookies and their racks. Source: Bookies (pulsar-broker admin v2), BookiesRackConfiguration; answers
recorded from Pulsar 4.0.7."""

from typing import Any

from magnetar.metadata import paths
from magnetar.metadata.store import MetadataStore
from magnetar.server.admin import bodies, json_records
from magnetar.server.web.calls import NO_CONTENT, Answer, Call, Refusal, Route
from magnetar.server.web.needs import SUPERUSER
from magnetar.server.web.places import Place


async def list_all(call: Call) -> Answer:
    """Lists the bookies that take writes and those that are read-only."""
    return {"bookies": [{"bookieId": each} for each in await registered(call.broker.bookie_metadata)]}


async def registered(store: MetadataStore) -> list[str]:
    """Returns the ids of all bookies that are registered, sorted. Raises MetadataError."""
    ids = [
        *await json_records.children(store, paths.AVAILABLE_BOOKIES),
        *await json_records.children(store, paths.READ_ONLY_BOOKIES),
    ]
    return sorted(each for each in ids if each != paths.READ_ONLY_BOOKIES.rpartition("/")[2])


async def racks(call: Call) -> Answer:
    return await json_records.read(call.broker.service.metadata, paths.BOOKIE_RACKS) or {}


async def rack(call: Call) -> Answer:
    bookie = call.parts["bookie"]
    for group in (await racks(call)).values():
        if bookie in group:
            return group[bookie]
    raise _not_found(bookie)


async def set_rack(call: Call) -> Answer:
    bookie, group = call.parts["bookie"], call.query.get("group")
    given = bodies.obj(bodies.present(bodies.parse(call.body)))
    if not group:
        raise Refusal(412, "Bookie 'group' parameters is missing")
    info = {key: bodies.text(given[key], key) for key in ("rack", "hostname") if given.get(key) is not None}
    if not info.get("rack"):
        raise Refusal(412, "Bookie 'rack' parameter is missing")

    def change(groups: dict[str, Any]) -> None:
        _forget(groups, bookie)
        groups[group] = {**groups.get(group, {}), bookie: info}

    await json_records.update(call.broker.service.metadata, paths.BOOKIE_RACKS, change, create=True)
    return NO_CONTENT


async def remove_rack(call: Call) -> Answer:
    bookie = call.parts["bookie"]

    def change(groups: dict[str, Any]) -> None:
        if not _forget(groups, bookie):
            raise _not_found(bookie)

    if not await json_records.update(call.broker.service.metadata, paths.BOOKIE_RACKS, change):
        raise _not_found(bookie)
    return NO_CONTENT


def _forget(groups: dict[str, Any], bookie: str) -> bool:
    """Takes a bookie out of its group, and deletes the group when it becomes empty. Returns whether a group had the
    bookie."""
    found = False
    for name, members in list(groups.items()):
        if members.pop(bookie, None) is not None:
            found = True
            if not members:
                del groups[name]
    return found


def _not_found(bookie: str) -> Refusal:
    return Refusal(404, f"Bookie rack placement configuration not found: {bookie}")


ROUTES = (
    Route("GET", "/admin/v2/bookies/all", list_all, SUPERUSER, Place.ANY_BROKER),
    Route("GET", "/admin/v2/bookies/racks-info", racks, SUPERUSER, Place.ANY_BROKER),
    Route("GET", "/admin/v2/bookies/racks-info/{bookie}", rack, SUPERUSER, Place.ANY_BROKER),
    Route("POST", "/admin/v2/bookies/racks-info/{bookie}", set_rack, SUPERUSER, Place.ANY_BROKER),
    Route("DELETE", "/admin/v2/bookies/racks-info/{bookie}", remove_rack, SUPERUSER, Place.ANY_BROKER),
)
