"""Makes the servers watch the records that the store's callers watch, and finds out which events were missed while
there was no link.

`watch_rules` decides what must be watched and what is reported; this module sends the requests through the session's
client.
"""

import logging
from collections.abc import Callable

from magnetar.metadata.store import CancelWatch, RecordEvent, WatchCallback
from magnetar.metadata.zookeeper import jute_codec as zk_codec
from magnetar.metadata.zookeeper.connect_string import ConnectString
from magnetar.metadata.zookeeper.jute_codec import ZkStat
from magnetar.metadata.zookeeper.pending_request import Reply, stat_or_none
from magnetar.metadata.zookeeper.session_client import ZkClient
from magnetar.metadata.zookeeper.session_rules import Notification
from magnetar.metadata.zookeeper.watch_rules import ZkWatches

log = logging.getLogger(__name__)

SET_WATCHES_BYTES_MAX = 128 << 10
"""How many bytes of paths a request that arms watches on a new link may have. More watches take several requests."""


class ServerWatches:
    """The watches of one store. Paths are the caller's, without the chroot."""

    def __init__(self, client: ZkClient, connect: ConnectString) -> None:
        self._client = client
        self._connect = connect
        self._watches = ZkWatches()
        self._heard_until: int | None = None
        """The zxid up to which all watches have heard every event, while there is no link or while its watches are
        being armed. None while the watches hear every event."""

    def watch(self, path: str, callback: WatchCallback, recursive: bool) -> CancelWatch:
        """Adds a watch; returns the function that removes it.

        Without a link nothing is sent, since the next link arms all watches.
        """
        cancel_callback = self._watches.add(path, callback, recursive)
        full = self._connect.full_path(path)
        if self._client.is_connected:
            for mode in self._watches.modes(path):
                body = zk_codec.add_watch_body(full, recursive=mode)
                self._client.follow(body, lambda reply: _check_armed(reply, path))

        def cancel() -> None:
            before = self._watches.modes(path)
            cancel_callback()
            if before and not self._watches.modes(path) and self._client.is_connected and not self._client.is_closed:
                self._client.follow(zk_codec.remove_watches_body(full))

        return cancel

    def notified(self, event: Notification) -> None:
        """Calls the watches for an event that a server reported."""
        if self._connect.contains(event.path):
            self._watches.happened(RecordEvent(event.type, self._connect.user_path(event.path)))

    def disconnected(self) -> None:
        """Notes the zxid after which the watches may miss events."""
        if self._heard_until is None:
            self._heard_until = self._client.last_zxid

    def attached(self) -> None:
        """Arms all watches on a new link, and looks for events that the watches missed. The requests for this are
        pipelined and precede all other requests on the link."""
        exact, recursive = self._watches.exact_paths, self._watches.recursive_paths
        bound = self._heard_until
        if bound is None:
            return
        full = [[self._connect.full_path(path) for path in paths] for paths in (exact, recursive)]
        for body in zk_codec.set_watches_bodies(bound, *full, chunk_bytes_max=SET_WATCHES_BYTES_MAX):
            self._client.post(body, lambda reply: _check_armed(reply, "the watched records"))
        for path in exact:
            self._look(path, lambda path, stat, _: self._watches.found(path, stat, bound))
        for path in recursive:
            self._look(path, lambda path, _, zxid: self._watches.overlooked(path) if zxid > bound else None)
        # Answers come in order, so after this one all watches have heard what they missed.
        self._look("/", lambda *_: self._heard_all())

    def _look(self, path: str, then: Callable[[str, ZkStat | None, int], None]) -> None:
        """Reads the Stat of a record on the present link. `then` is called with the path, the Stat or None, and the
        zxid of the answer."""

        def answered(reply: Reply) -> None:
            then(path, stat_or_none(reply), reply.zxid)

        self._client.post(zk_codec.exists_body(self._connect.full_path(path)), answered)

    def _heard_all(self) -> None:
        self._heard_until = None


def _check_armed(reply: Reply, path: str) -> None:
    if reply.error:
        log.error("ZooKeeper does not watch %s (%d); it must be 3.6 or later", path, reply.error)
