"""Gives the messages that a topic's log has just confirmed to the topic's subscriptions.

This runs for each group of messages, so the module is compiled, unlike the topic.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from magnetar.server.topics.subscriptions.consumer import Consumer
from magnetar.server.topics.subscriptions.dispatcher import Dispatcher
from magnetar.server.topics.subscriptions.outgoing_messages import MessagesMemo, OutgoingMessages, messages_of
from magnetar.storage.managed.entry_run import EntryRun


class Follower(Protocol):
    """A subscription, as far as new messages concern it."""

    @property
    def consumers(self) -> Sequence[Consumer]: ...

    @property
    def dispatcher(self) -> Dispatcher | None: ...


class NewMessages:
    """The new messages of one topic, on their way to the subscriptions in `followers`."""

    __slots__ = ("_followers", "_memo")

    def __init__(self, followers: Mapping[str, Follower]) -> None:
        self._followers = followers
        self._memo: MessagesMemo | None = None
        """The cache that prepares the newest run (a group of consecutive entries) once for several subscriptions. It is
        set only while a group of messages that the log has just confirmed is given to the subscriptions."""

    def confirmed(self) -> None:
        """Called when the log has confirmed a group of messages. Subscriptions that keep up send the group at once; the
        messages of the group are prepared only once for all these subscriptions."""
        followers = self._followers
        if not followers:
            return
        if len(followers) > 1:
            self._memo = MessagesMemo()
        for follower in list(followers.values()):
            if follower.consumers:
                dispatcher = follower.dispatcher
                if dispatcher is not None:
                    dispatcher.kick()
        self._memo = None

    def messages_of(self, run: EntryRun) -> OutgoingMessages:
        """Returns the entries of a run, ready to be sent."""
        return messages_of(run) if self._memo is None else self._memo.messages_of(run)
