"""The calls that unload and split bundles.

A call that unloads a bundle to a named destination goes to the leader first. The leader notes the destination and
redirects the caller to the bundle's owner, which serves every other call on the bundle. Sources: NamespacesBase
(internalUnloadNamespaceAsync, internalUnloadNamespaceBundleAsync, internalSplitNamespaceBundleAsync); answers recorded
from Pulsar 4.0.7.
"""

from magnetar.server.admin import bodies
from magnetar.server.admin.bundle_calls import checked_bundle
from magnetar.server.admin.call_paths import NAMESPACES, namespace_of
from magnetar.server.admin.over_bundles import unload_everywhere
from magnetar.server.namespaces.bundle_name import BundleName
from magnetar.server.namespaces.split_point_rules import SplitRefused, unsupported_algorithm
from magnetar.server.web.calls import NO_CONTENT, Answer, Call, Refusal, Route
from magnetar.server.web.needs import SUPERUSER
from magnetar.server.web.owner_redirects import to_owner_of_bundle
from magnetar.server.web.place_rules import DESTINATION
from magnetar.server.web.places import Place

LARGEST = "LARGEST"
"""Stands for the bundle with the most topics."""

HOT = "HOT"
"""Stands for the bundle with the most traffic."""

HASHES_MAX = 10_000
"""The largest number of hashes at which one call may cut a bundle."""


async def unload_namespace(call: Call) -> Answer:
    """Unloads every bundle of a namespace at the bundle's owner. A bundle without an owner is not loaded anywhere, so
    it is left as it is."""
    name, broker = namespace_of(call), call.broker
    await broker.service.catalog.check_namespace(name)
    await unload_everywhere(broker, name)
    return NO_CONTENT


async def unload_bundle(call: Call) -> Answer:
    """Unloads a bundle, so that another broker may own it. Raises Refusal 409 for a destination that is not
    registered."""
    destination, placement = call.query.get(DESTINATION), call.broker.lookups.placement
    if destination and await placement.broker(destination) is None:
        raise Refusal(409, "Not allowed unload namespace bundle to inactive destination broker")
    _, bounds = await checked_bundle(call)
    bundle = BundleName(namespace_of(call), bounds)
    if destination:
        placement.note_destination(bundle, destination)
        await to_owner_of_bundle(call, bundle, acquire=False)
    await call.broker.moves.unload(bundle)
    return NO_CONTENT


async def split(call: Call) -> Answer:
    """Splits a bundle by the algorithm that the parameter `splitAlgorithmName` names, or at the hashes that the body
    lists. Raises Refusal 412 when the bundle cannot be split so."""
    broker, name = call.broker, namespace_of(call)
    await broker.service.catalog.check_namespace(name)
    algorithm = call.query.get("splitAlgorithmName", "")
    if algorithm not in ("", *broker.moves.settings.supported_namespace_bundle_split_algorithms):
        raise Refusal(412, unsupported_algorithm())
    body = bodies.parse(call.body)
    at = [bodies.integer(point, bodies.LONG_MAX) for point in body] if isinstance(body, list) else []
    if len(at) > HASHES_MAX:
        raise Refusal(412, f"More than {HASHES_MAX} positions")
    bundle = await _bundle_to_split(call, name)
    try:
        await broker.moves.split(bundle, algorithm, at, unload=call.flag("unload"))
    except SplitRefused as refused:
        raise Refusal(412, str(refused)) from None
    return NO_CONTENT


async def _bundle_to_split(call: Call, name: str) -> BundleName:
    """Returns the bundle that the path names, which this broker owns. Raises Moved when another broker owns the bundle
    that LARGEST or HOT stands for, and Refusal 412 when the namespace has no such bundle."""
    if call.parts["bundle"] not in (LARGEST, HOT):
        return BundleName(name, (await checked_bundle(call))[1])
    bundle = await _extreme(call, name)
    await to_owner_of_bundle(call, bundle, acquire=True)
    return bundle


async def _extreme(call: Call, name: str) -> BundleName:
    """Returns for `HOT` the bundle with the most throughput. For `LARGEST`, and for `HOT` when no bundle has traffic,
    returns the bundle with the most topics, or the first bundle when no bundle has a topic."""
    broker, bundles = call.broker, await call.broker.ownership.bundles.get(name)
    if call.parts["bundle"] == HOT:
        busiest = max(bundles.all, key=broker.lookups.placement.throughput_of)
        if broker.lookups.placement.throughput_of(busiest) > 0:
            return busiest
    largest = await broker.moves.largest(name, await broker.service.catalog.topics_of(name))
    return largest or bundles.all[0]


ROUTES = (
    Route("PUT", f"{NAMESPACES}/unload", unload_namespace, SUPERUSER, Place.ANY_BROKER),
    Route("PUT", f"{NAMESPACES}/{{bundle}}/unload", unload_bundle, SUPERUSER, Place.BUNDLE_TO_UNLOAD),
    Route("PUT", f"{NAMESPACES}/{{bundle}}/split", split, SUPERUSER, Place.FOUND_BUNDLE),
)
