"""The errors of this broker's clients for its peers. Each error means that a peer gave no valid answer, so that the
caller may not know whether the peer has done the request. A refusal with an error code of the protocol is a PulsarError
instead."""


class PeerError(Exception):
    """The base class of all errors here."""


class PeerUnreachableError(PeerError):
    """The peer is not registered, the connection to the peer failed, or the connection broke."""


class PeerTimeoutError(PeerError):
    """The peer did not answer within the deadline."""


class PeerAnswerError(PeerError):
    """The peer's answer cannot be used; for instance, the answer is too long or leads to redirects without end."""
