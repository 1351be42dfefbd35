"""A TCP proxy between a client and a server that can lose the server's answers, as a network does before it breaks."""

import contextlib
import socket
import threading
from types import TracebackType
from typing import Self

CHUNK = 65_536


class LossyProxy:
    """Forwards to a port of this machine. It is a context manager; clients connect to `url`."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: set[socket.socket] = set()
        self._loses = threading.Event()
        self.lost_bytes = 0
        """How many bytes the server sent that nobody got."""
        self.url = f"pulsar://127.0.0.1:{self._listener.getsockname()[1]}"

    def lose_answers(self) -> None:
        """Drops everything that the server sends from now on."""
        self._loses.set()

    def cut(self) -> None:
        """Ends all connections; later ones lose nothing."""
        for sock in list(self._sockets):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        self._loses.clear()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._target))
            self._sockets |= {client, server}
            for source, sink in ((client, server), (server, client)):
                threading.Thread(target=self._pump, args=(source, sink, sink is client), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, is_answer: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(CHUNK):
                if is_answer and self._loses.is_set():
                    self.lost_bytes += len(data)
                else:
                    sink.sendall(data)
        for sock in (source, sink):
            self._sockets.discard(sock)
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.close()
        self.cut()
