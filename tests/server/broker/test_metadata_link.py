"""A broker that has been without its metadata store for the time of a session says so to whoever probes it."""

from magnetar.metadata.store import CancelWatch, SessionCallback, SessionEvent
from magnetar.server.broker.metadata_link import MetadataLink
from magnetar.server.broker.write_readiness import WriteReadiness

SESSION_SECONDS = 30.0


class FakeStore:
    def __init__(self) -> None:
        self.is_connected = self.is_answering = True
        self._tell: SessionCallback = lambda event: None

    def on_session(self, callback: SessionCallback) -> CancelWatch:
        self._tell = callback
        return lambda: None

    def happen(self, event: SessionEvent) -> None:
        self.is_connected = self.is_answering = event in (SessionEvent.CONNECTED, SessionEvent.NEW_SESSION)
        self._tell(event)


class Scene:
    def __init__(self) -> None:
        self.now = 1000.0
        self.store = FakeStore()
        self.link = MetadataLink(self.store, SESSION_SECONDS, lambda: self.now)
        self.readiness = WriteReadiness((self.link,))


def test_a_short_loss_of_the_connection_hinders_nothing() -> None:
    scene = Scene()
    scene.store.happen(SessionEvent.DISCONNECTED)
    scene.now += SESSION_SECONDS - 1
    assert not scene.link.is_connected
    assert scene.link.away_seconds == SESSION_SECONDS - 1
    assert scene.readiness.hindrance is None
    scene.store.happen(SessionEvent.CONNECTED)
    scene.now += SESSION_SECONDS
    assert scene.link.away_seconds == 0
    assert scene.readiness.hindrance is None


def test_after_the_session_s_time_the_broker_is_not_ready_until_it_has_a_session_again() -> None:
    scene = Scene()
    scene.store.happen(SessionEvent.DISCONNECTED)
    scene.now += 10
    scene.store.happen(SessionEvent.DISCONNECTED)  # an attempt that failed does not begin the time anew
    scene.now += SESSION_SECONDS - 10
    assert scene.readiness.hindrance == "no connection to the metadata store for 30 s, so its session is over"
    assert scene.readiness.fault is None, "a restart would not help"
    scene.store.happen(SessionEvent.EXPIRED)
    assert scene.readiness.hindrance is not None
    scene.store.happen(SessionEvent.NEW_SESSION)
    assert scene.readiness.hindrance is None


def test_a_silent_store_is_shown_before_the_connection_is_given_up() -> None:
    scene = Scene()
    scene.store.is_answering = False
    assert not scene.link.is_connected
    assert scene.link.away_seconds == 0
