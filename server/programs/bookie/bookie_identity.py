"""The identity of a bookie: its id in the records of ledgers, and the address that clients connect to.

Source: BookieImpl.getBookieAddress and BookieImpl.getBookieId of BookKeeper 4.17."""

import fcntl
import ipaddress
import re
import socket
import struct
import sys
from dataclasses import dataclass

from magnetar.server.config.bookie_process_config import BookieServerConfig
from pulsar_proto.pb import bookkeeper_pb2 as pb

BOOKIE_ID = re.compile(r"[a-zA-Z0-9:-_.\-]+")
"""Apache's expression for a valid id. Its `:-_` is a range, which also allows the characters `;<=>?@[\\]^`."""
RESERVED_IDS = ("readonly",)
"""Names that no bookie may have: in ZooKeeper, `available/readonly` is a folder beside the bookies."""

_GET_ADDRESS = 0x8915 if sys.platform == "linux" else 0xC0206921
"""The number of the system call SIOCGIFADDR, which asks for an interface's address."""


class IdentityError(Exception):
    """The configuration does not give an id or an address for the bookie. The text is the sentence for the user."""


@dataclass(frozen=True, slots=True)
class BookieIdentity:
    """The id of a bookie, and the host and port that clients connect to."""

    bookie_id: str
    host: str
    port: int

    def service_info(self, http_port: int | None = None, *, has_tls: bool = False) -> bytes:
        """Returns the BookieServiceInfo that is registered. A Java client connects to the endpoint with the protocol
        "bookie-rpc" in this record."""
        rpc = pb.BookieServiceInfoFormat.Endpoint(id="bookie", port=self.port, host=self.host, protocol="bookie-rpc")
        if has_tls:
            rpc.extensions.append("tls")
        info = pb.BookieServiceInfoFormat(endpoints=[rpc])
        if http_port is not None:
            info.endpoints.add(id="httpserver", port=http_port, host=self.host, protocol="http")
        return info.SerializeToString()


def identity_of(config: BookieServerConfig, port: int) -> BookieIdentity:
    """Returns the identity of a bookie that listens on `port`, asking the system for its addresses. Raises
    IdentityError when the configuration gives no id or no address."""
    host = config.advertised_address or _own_host(config)
    bookie_id = config.bookie_id or f"{host}:{port}"
    if not BOOKIE_ID.fullmatch(bookie_id) or bookie_id in RESERVED_IDS:
        raise IdentityError(f"bookieId {bookie_id!r} is not a valid bookie id: letters, digits and .:-_ only")
    return BookieIdentity(bookie_id, host, port)


def bind_hosts(config: BookieServerConfig) -> tuple[str, ...]:
    """Returns the addresses to listen on, in the order of preference: the first one that can be bound is used. Raises
    IdentityError for an interface without address."""
    if config.listening_interface:
        return (interface_address(config.listening_interface),)
    return ("::", "0.0.0.0") if socket.has_dualstack_ipv6() else ("0.0.0.0",)


def interface_address(interface: str) -> str:
    """Returns the IPv4 address of a network interface. Raises IdentityError when there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            answer = fcntl.ioctl(probe, _GET_ADDRESS, struct.pack("256s", interface.encode()[:15]))
        except OSError as error:
            known = ", ".join(name for _, name in socket.if_nameindex())
            reason = error.strerror or error
            raise IdentityError(
                f"listeningInterface {interface!r} has no IPv4 address: {reason} (there are: {known})"
            ) from None
    return socket.inet_ntoa(answer[20:24])


def _own_host(config: BookieServerConfig) -> str:
    address = interface_address(config.listening_interface) if config.listening_interface else _own_address()
    if ipaddress.ip_address(address).is_loopback and not config.allow_loopback:
        raise IdentityError(
            f"this machine's address would be the loopback one, {address}, which other machines cannot reach: "
            "set advertisedAddress or listeningInterface, or allowLoopback=true for a cluster on one machine"
        )
    if not config.use_host_name_as_bookie_id:
        return address
    name = socket.getfqdn(address)
    return name.partition(".")[0] if config.use_short_host_name else name


def _own_address() -> str:
    """Returns the address of this machine's host name. Raises IdentityError when the name cannot be resolved."""
    name = socket.gethostname()
    try:
        return str(socket.getaddrinfo(name, None, socket.AF_INET, socket.SOCK_STREAM)[0][4][0])
    except OSError as error:
        raise IdentityError(
            f"this machine's host name {name!r} does not resolve ({error}): set advertisedAddress"
        ) from None
