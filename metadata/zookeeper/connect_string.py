"""Parses the connect string that every ZooKeeper client takes: the servers and the chroot (ConnectStringParser). No
I/O."""

from dataclasses import dataclass

from magnetar.metadata.tree_rules import check_path

DEFAULT_PORT = 2181
SCHEME = "zk:"
"""The prefix of Pulsar's metadataStoreUrl; it is optional here."""


@dataclass(frozen=True, slots=True)
class ConnectString:
    """The servers, and the chroot: the path of the record that callers know as "/", or "" when there is no chroot."""

    servers: tuple[tuple[str, int], ...]
    chroot: str = ""

    @classmethod
    def parse(cls, text: str) -> "ConnectString":
        """Parses a text like "host:port,[::1]:port/chroot". Raises ValueError for any other text."""
        rest = text.removeprefix(SCHEME)
        slash = rest.find("/")
        hosts, chroot = (rest, "") if slash < 0 else (rest[:slash], rest[slash:])
        if chroot == "/":
            chroot = ""
        if chroot:
            check_path(chroot)
        servers = tuple(_server(one.strip(), text) for one in hosts.split(",") if one.strip())
        if not servers:
            raise ValueError(f"ZooKeeper connect string {text!r} names no server")
        return cls(servers, chroot)

    def full_path(self, path: str) -> str:
        """Returns the caller's path with the chroot, as the servers know the record."""
        if not self.chroot:
            return path
        return self.chroot if path == "/" else self.chroot + path

    def user_path(self, full: str) -> str:
        """Returns the servers' path without the chroot, as the caller knows the record. For a path above the chroot,
        returns "/"."""
        if not self.contains(full):
            return "/"
        return full[len(self.chroot) :] or "/"

    def contains(self, full: str) -> bool:
        """Returns whether the servers' path is the chroot or below the chroot."""
        return not self.chroot or full == self.chroot or full.startswith(f"{self.chroot}/")


def _server(text: str, connect: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port = text, str(DEFAULT_PORT)
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError(f"ZooKeeper connect string {connect!r}: {text!r} is not host:port")
    return host, int(port)
