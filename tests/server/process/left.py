"""What tests that look for garbage put in the place of `LeftObjects`."""

import gc

from magnetar.server.process.second_look import look_again


class Left:
    """Stands in for `LeftObjects`, and gives second looks when the test asks for them."""

    def __init__(self) -> None:
        self.waiting: list[object] = []

    def add(self, what: object) -> None:
        self.waiting.append(what)

    def free(self) -> None:
        """Has the collector look at all objects that were left, and at no other old ones."""
        gc.freeze()
        while self.waiting:
            look_again(self.waiting.pop())
        gc.collect(0)
