"""Faults that a test sets on its server, for as long as the test needs them.

Each method is a call of the REST interface that a server of `magnetar.testing` has; docs/TESTING.md names the calls for
other languages.
"""

from typing import Any, Literal
from urllib.parse import quote

from magnetar.testing.admin_calls import AdminCalls

Event = Literal["receipt", "ack", "message"]
"""A receipt on its way to a producer, an acknowledgement on its way from a consumer, or a message (with batching: a
batch) on its way to a consumer."""

FAULTS = "/admin/v2/faults"


class Faults:
    """The faults of one server. The methods that set a fault return its id, for `struck`.

    Such a fault concerns the events of `topic`, or of all topics without one. It lets `after` of them pass, then
    strikes `times` of them, each with the probability `chance`. With the same `seed` it strikes the same ones in every
    run.
    All methods raise AdminError when the server refuses the call.
    """

    def __init__(self, admin: AdminCalls) -> None:
        self._admin = admin

    # --- events ------------------------------------------------------------------------------------------------------

    def lose(
        self, event: Event, topic: str = "", *, after: int = 0, times: int = 1, chance: float = 1, seed: int = 0
    ) -> int:
        """The event does not arrive."""
        return self._add(event, "lose", topic=topic, after=after, times=times, chance=chance, seed=seed)

    def double(
        self, event: Event, topic: str = "", *, after: int = 0, times: int = 1, chance: float = 1, seed: int = 0
    ) -> int:
        """The event arrives twice."""
        return self._add(event, "double", topic=topic, after=after, times=times, chance=chance, seed=seed)

    def delay(
        self,
        event: Event,
        topic: str = "",
        *,
        seconds: float = 1,
        after: int = 0,
        times: int = 1,
        chance: float = 1,
        seed: int = 0,
    ) -> int:
        """The event arrives later. Receipts and messages behind it wait as well, so that their order is kept."""
        milliseconds = round(seconds * 1000)
        return self._add(
            event, "delay", topic=topic, delayMs=milliseconds, after=after, times=times, chance=chance, seed=seed
        )

    def refuse_lookups(
        self,
        topic: str = "",
        *,
        error: Literal["ServiceNotReady", "TooManyRequests"] = "ServiceNotReady",
        after: int = 0,
        times: int = 1,
        chance: float = 1,
        seed: int = 0,
    ) -> int:
        """Lookups of the binary protocol are refused: those for the topic's broker and those for its partitions."""
        return self._add("lookup", "fail", topic=topic, error=error, after=after, times=times, chance=chance, seed=seed)

    def fail_ledger_writes(self, *, after: int = 0, times: int = 1, chance: float = 1, seed: int = 0) -> int:
        """Writes to the bookie fail: those of all topics, and those of cursors."""
        return self._add("ledger-write", "fail", after=after, times=times, chance=chance, seed=seed)

    def delay_ledger_writes(
        self, *, seconds: float = 1, after: int = 0, times: int = 1, chance: float = 1, seed: int = 0
    ) -> int:
        """Writes to the bookie are done later."""
        milliseconds = round(seconds * 1000)
        return self._add(
            "ledger-write", "delay", delayMs=milliseconds, after=after, times=times, chance=chance, seed=seed
        )

    def struck(self, fault_id: int) -> int:
        """Returns how many events the fault has struck so far."""
        return next(int(each["struck"]) for each in self._admin.call("GET", FAULTS) if each["id"] == fault_id)

    def clear(self) -> None:
        """Takes all faults away, heals the bookie, frees the disk, and sets the clock right."""
        self._admin.call("DELETE", FAULTS)
        self.partition_bookie(False)
        self.fill_disk(False)
        self.move_clock(0)

    # --- the server --------------------------------------------------------------------------------------------------

    def fill_disk(self, is_full: bool = True) -> None:
        """The server sees a full disk: it takes no writes until `fill_disk(False)`, and goes on serving what it has."""
        self._admin.call("PUT", f"{FAULTS}/full-disk", is_full)

    def partition_bookie(self, is_cut_off: bool = True) -> None:
        """The server's bookie neither answers nor refuses a request until `partition_bookie(False)`, as behind a
        network that drops everything. What was asked meanwhile is then done."""
        self._admin.call("PUT", f"{FAULTS}/bookie-partition", is_cut_off)

    def move_clock(self, seconds: float) -> None:
        """The server's time of day is so far ahead of the real one. What is due by then happens at once: messages and
        retained ledgers expire, delayed messages are delivered, tokens expire."""
        self._admin.call("PUT", f"{FAULTS}/clock", round(seconds * 1000))

    # --- clients of a topic ------------------------------------------------------------------------------------------

    def close_producers(self, topic: str) -> None:
        """All producers of the topic get CLOSE_PRODUCER, as from a broker that gives the topic away."""
        self._admin.call("POST", f"{FAULTS}/{_path(topic)}/close-producers")

    def close_consumers(self, topic: str, subscription: str) -> None:
        """All consumers of the subscription get CLOSE_CONSUMER."""
        self._admin.call("POST", f"{FAULTS}/{_subscription(topic, subscription)}/close-consumers")

    def redeliver(self, topic: str, subscription: str) -> None:
        """All that the subscription's consumers hold unacknowledged is delivered again."""
        self._admin.call("POST", f"{FAULTS}/{_subscription(topic, subscription)}/redeliver")

    def unload(self, topic: str) -> None:
        """The server closes the topic, and loads it again for the next client."""
        self._admin.call("PUT", f"/admin/v2/{_path(topic)}/unload")

    def _add(self, target: str, effect: str, **more: Any) -> int:
        return int(self._admin.call("POST", FAULTS, {"target": target, "effect": effect, **more})["id"])


def _path(topic: str) -> str:
    """Returns a topic's part of a path, from its full name or any short form of it."""
    domain, mark, rest = topic.rpartition("://")
    if rest.count("/") < 2:
        rest = f"public/default/{rest}"
    tenant, namespace, name = rest.split("/", 2)
    return f"{domain if mark else 'persistent'}/{tenant}/{namespace}/{quote(name, safe='')}"


def _subscription(topic: str, subscription: str) -> str:
    return f"{_path(topic)}/subscription/{quote(subscription, safe='')}"
