"""A server for test cases of unittest: one for all test cases of a process."""

import atexit
from functools import cache

from magnetar.testing.server_process import Server


class PulsarTestMixin:
    """Gives a `unittest.TestCase` a server and each of its tests a namespace. Name the mixin first:

    class OrderTest(PulsarTestMixin, unittest.TestCase): ...
    """

    pulsar_server: Server
    pulsar_url: str
    pulsar_admin_url: str
    pulsar_namespace: str
    """ "tenant/namespace" of the running test; it is deleted after the test."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.pulsar_server = shared_server()
        cls.pulsar_url = cls.pulsar_server.service_url
        cls.pulsar_admin_url = cls.pulsar_server.admin_url
        super().setUpClass()  # type: ignore[misc]

    def run(self, result: object = None) -> object:
        """Runs one test with a namespace of its own. The namespace outlives `tearDown` and all cleanups, which may
        still use it. The faults that the test has set end with it."""
        server = shared_server()
        if not server.is_running:
            server.start()
        with server.namespace() as self.pulsar_namespace:
            try:
                return super().run(result)  # type: ignore[misc]
            finally:
                server.end_faults()


@cache
def shared_server() -> Server:
    """Returns the started server of this process. It is closed when the process ends."""
    server = Server()
    atexit.register(server.close)
    server.start()
    return server
