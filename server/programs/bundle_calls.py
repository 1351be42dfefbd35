"""The REST calls by which the leader has bundles unloaded and split by their owners.

Source: ModularLoadManagerImpl.doLoadShedding, doNamespaceBundleSplit, which use PulsarService.getAdminClient.
"""

from magnetar.server.load.leader_duties import BundleRequestError
from magnetar.server.namespaces.bundle_name import BundleName
from magnetar.server.peers.admin_peer import AdminPeer
from magnetar.server.peers.peer_errors import PeerError

DEADLINE_SECONDS = 90.0
"""How long a call may take. An unload takes as long as the close of the bundle's topics, which has a deadline of one
minute of its own (namespaceBundleUnloadingTimeoutMs)."""


class BundleCalls:
    """The `BundleRequests` of a broker. The calls go to this broker itself, which redirects them to the owner."""

    def __init__(self, peer: AdminPeer, broker_id: str) -> None:
        self._peer = peer
        self._broker_id = broker_id

    async def unload(self, bundle: BundleName, destination: str) -> None:
        await self._put(bundle, "unload", {"destinationBroker": destination})

    async def split(self, bundle: BundleName, *, unload: bool) -> None:
        await self._put(bundle, "split", {"unload": str(unload).lower()})

    async def _put(self, bundle: BundleName, verb: str, query: dict[str, str]) -> None:
        path = f"/admin/v2/namespaces/{bundle}/{verb}"
        try:
            answer = await self._peer.call("PUT", self._broker_id, path, query, deadline_seconds=DEADLINE_SECONDS)
        except PeerError as error:
            raise BundleRequestError(str(error)) from error
        if answer.status >= 300:
            raise BundleRequestError(f"{verb} of {bundle}: status {answer.status}: {answer.body[:200]!r}")
