"""The steps of a lookup, which goes from broker to broker until a broker names the topic's owner.

Source: BinaryProtoLookupService.findBroker, which follows redirects up to maxLookupRedirects 20.
"""

from typing import NamedTuple

from magnetar.server.peers.peer_errors import PeerAnswerError
from pulsar_proto.errors import error_of_code
from pulsar_proto.pb import pulsar_api_pb2 as pb

REDIRECTS_MAX = 20
"""How many redirects of one lookup are followed. One more is an error, because it means that the brokers disagree about
the leader."""


class Ask(NamedTuple):
    """The next step: ask the broker at `url`."""

    url: str
    authoritative: bool


class Owner(NamedTuple):
    """The end: the topic's owner."""

    url: str
    """The address to connect to."""
    proxy_to: str = ""
    """The owner's own address when `url` is the address of a proxy; empty when `url` is the owner itself."""


class LookupWalk:
    """One lookup. `first` is the step to begin with; each answer leads to the next step."""

    def __init__(self, service_url: str, *, uses_tls: bool) -> None:
        self.first = Ask(service_url, False)
        self._service_url = service_url
        self._uses_tls = uses_tls
        self._redirects = 0

    def answered(self, response: pb.CommandLookupTopicResponse) -> Ask | Owner:
        """Returns the next step after an answer. Raises PulsarError for a refusal, and PeerAnswerError for an answer
        that names no address or exceeds REDIRECTS_MAX."""
        if response.response == pb.CommandLookupTopicResponse.Failed:
            raise error_of_code(response.error, response.message)
        url = response.brokerServiceUrlTls if self._uses_tls else response.brokerServiceUrl
        if not url:
            raise PeerAnswerError(f"a lookup names no {'TLS ' if self._uses_tls else ''}address of the topic's owner")
        if response.response == pb.CommandLookupTopicResponse.Redirect:
            self._redirects += 1
            if self._redirects > REDIRECTS_MAX:
                raise PeerAnswerError(f"a lookup was redirected more than {REDIRECTS_MAX} times")
            return Ask(url, response.authoritative)
        if response.proxy_through_service_url:
            return Owner(self._service_url, url)
        return Owner(url)
