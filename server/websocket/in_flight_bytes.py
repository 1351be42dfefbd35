"""A limit on the bytes of all messages that the sockets of all producers have sent and that are not stored yet."""

from magnetar.server.topics.client_connection import ClientConnection


class InFlightBytes:
    """Counts the unstored bytes of all sockets. A socket whose message makes the sum larger than `bytes_max` is not
    read until the sum is at most `bytes_max` again. A `bytes_max` of 0 or less means "no limit"."""

    def __init__(self, bytes_max: int) -> None:
        self.total = 0
        self._bytes_max = bytes_max
        self._waiting: set[ClientConnection] = set()

    def take(self, client: ClientConnection, size_bytes: int) -> None:
        self.total += size_bytes
        if 0 < self._bytes_max < self.total and client not in self._waiting:
            self._waiting.add(client)
            client.throttle_reading(self)

    def free(self, size_bytes: int) -> None:
        self.total -= size_bytes
        assert self.total >= 0
        if self._waiting and self.total <= self._bytes_max:
            waiting, self._waiting = self._waiting, set()
            for client in waiting:
                client.release_reading(self)

    def leave(self, client: ClientConnection) -> None:
        """Called when a socket has ended."""
        self._waiting.discard(client)
