"""A producer or consumer that is being created."""


class Pending:
    """`abandoned`: the client closed it meanwhile, or left; what comes of it is closed at once."""

    __slots__ = ("abandoned",)

    def __init__(self) -> None:
        self.abandoned = False
