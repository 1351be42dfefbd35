"""Watches one bookie's connection for silence, probes the bookie, and cuts the connection of a dead one.

`silence_rules` decides; this module has the timer and the probe. The timer runs only while requests are made or wait.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from magnetar.storage.ledger.silence_rules import DEAD_TICKS, SilenceRules, Step
from magnetar.storage.ledger.wire_config import WireConfig
from magnetar.storage.ledger.wire_link import WireLink
from pulsar_proto.wire.bookie_wire import BookieError

log = logging.getLogger(__name__)


class SilenceWatch:
    """The watch over the link `watched`. `probe()` asks the bookie something on the link `probed`, which may be
    `watched` itself; an answer of any kind proves that the bookie lives. `is_registered()` says whether the bookie's
    registration is there, as far as the client knows."""

    __slots__ = (
        "_config",
        "_is_registered",
        "_last_heard",
        "_loop",
        "_probe",
        "_probed",
        "_probing",
        "_rules",
        "_timer",
        "_wanted",
        "_watched",
    )

    def __init__(
        self,
        watched: WireLink,
        probed: WireLink,
        probe: Callable[[], Awaitable[object]],
        is_registered: Callable[[], bool],
        config: WireConfig,
    ) -> None:
        self._watched = watched
        self._probed = probed
        self._probe = probe
        self._is_registered = is_registered
        self._config = config
        self._loop = asyncio.get_running_loop()
        self._rules = SilenceRules()
        self._timer: asyncio.TimerHandle | None = None
        self._probing: asyncio.Task[None] | None = None
        self._last_heard = 0.0
        self._wanted = False

    def lets_through(self) -> bool:
        """Called for each request: starts the timer, so that a missing answer is noticed. Returns False when the bookie
        is dead: the request should fail at once, and the next tick probes the bookie again."""
        self._wanted = True
        if self._timer is None:
            self._timer = self._loop.call_later(self._config.silence_check_sec, self.tick)
        return not self._rules.dead

    @property
    def probes(self) -> bool:
        """Whether a probe is under way."""
        return self._probing is not None

    @property
    def is_idle(self) -> bool:
        """Whether the watch has neither a timer nor a probe under way."""
        return self._timer is None and self._probing is None

    async def close(self) -> None:
        """Ends the watch. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
        if self._probing is not None:
            self._probing.cancel()
            await asyncio.wait([self._probing])

    def tick(self) -> None:
        """Judges the bookie. The watch's timer calls this method; a test may call it instead."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        connection = self._watched.connection
        waiting = connection is not None and connection.awaits_answer
        if connection is not None and connection.heard and connection.last_heard != self._last_heard:
            self._last_heard = connection.last_heard
            self._rules.heard()
            step = Step.NONE
        else:
            step = self._rules.tick(waiting=waiting, registered=self._is_registered())
        if step is Step.CUT and connection is not None:
            why = "is registered" if self._is_registered() else "is not registered any more"
            log.warning("bookie %s: answers neither requests nor probes and %s; cut", self._watched.name, why)
            connection.abort("the bookie answers nothing")
        elif step is Step.PROBE and self._probing is None and (waiting or self._wanted):
            self._probing = self._loop.create_task(self._ask())
        if waiting or self._wanted or self._probing is not None:
            self._timer = self._loop.call_later(self._config.silence_check_sec, self.tick)
        self._wanted = False

    async def _ask(self) -> None:
        try:
            async with asyncio.timeout(DEAD_TICKS * self._config.silence_check_sec):
                await self._probe()
        except BookieError:
            self._lives()  # a refusal is an answer too
        except TimeoutError:
            if (connection := self._probed.connection) is not None:
                connection.abort("the bookie did not answer a probe")
        except ConnectionError:
            pass  # the next tick asks again
        else:
            self._lives()
        finally:
            self._probing = None

    def _lives(self) -> None:
        if self._rules.dead:
            log.info("bookie %s: answers again", self._watched.name)
        self._rules.heard()
