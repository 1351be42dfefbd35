"""What goes wrong between a tool and a server. Tools show the text of these errors to the person in front of them."""


class ConnectionSettingsError(Exception):
    """The settings of the connection cannot be used. The text is one sentence that names the setting and its source."""


class AdminCallError(Exception):
    """A call failed.

    `status` is the server's HTTP status, or None when there is no answer. `reason` is the text that the server gave, or
    what happened instead; it is also the text of the error. `body` is the body of the answer.
    """

    def __init__(self, reason: str, status: int | None = None, body: bytes = b"") -> None:
        super().__init__(reason)
        self.reason = reason
        self.status = status
        self.body = body
