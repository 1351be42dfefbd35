"""Decides, without I/O, which clients may read, write or administer a record.

An access control list is a tuple of entries (permissions, scheme, id). The schemes are Java's built-in ones: `world`,
`auth`, `digest`, `ip`, and `super` for clients that know the operator's password. Source:
PrepRequestProcessor.fixupACL, ZooKeeperServer.checkACL, DigestAuthenticationProvider, IPAuthenticationProvider.
"""

import base64
import hashlib
import ipaddress
from collections.abc import Iterable

from magnetar.metadata.zookeeper_codes import ErrorCode
from magnetar.metadata.zookeeper_server import answers
from magnetar.metadata.zookeeper_server.node_rules import ACL_IDS_MAX, OPEN_ACL
from magnetar.metadata.zookeeper_server.protocol import Perms, RequestError

Entry = tuple[int, bytes, bytes]
Acl = tuple[Entry, ...]
Identity = tuple[bytes, bytes]
"""One identity of a client: (scheme, id). A client has several identities; one of them is its address."""

OPEN: Acl = ((int(Perms.ALL), b"world", b"anyone"),)
READ_ONLY: Acl = ((int(Perms.READ), b"world", b"anyone"),)
SUPER: Identity = (b"super", b"")


class AclTable:
    """The access control lists of all records, each with a number. The number of a list never changes."""

    def __init__(self) -> None:
        self._lists: dict[int, Acl] = {OPEN_ACL: OPEN}
        self._ids: dict[Acl, int] = {OPEN: OPEN_ACL}
        self._next_id = OPEN_ACL + 1

    def __getitem__(self, acl_id: int) -> Acl:
        return self._lists[acl_id]

    def __contains__(self, acl_id: int) -> bool:
        return acl_id in self._lists

    def id_of(self, acl: Acl) -> tuple[int, bool]:
        """Returns the number of a list, and whether the list is new and has to be stored. Raises RequestError when all
        numbers are taken."""
        acl_id = self._ids.get(acl)
        if acl_id is not None:
            return acl_id, False
        acl_id = self._next_id
        if acl_id > ACL_IDS_MAX:
            raise RequestError(ErrorCode.INVALID_ACL)
        self.restore(acl_id, acl)
        return acl_id, True

    def restore(self, acl_id: int, acl: Acl) -> None:
        """Adds a stored list with its number."""
        self._lists[acl_id] = acl
        self._ids[acl] = acl_id
        self._next_id = max(self._next_id, acl_id + 1)


def effective_acl(asked: Acl, identities: Iterable[Identity]) -> Acl:
    """Returns the list that a record gets when a client asks for `asked`: duplicates are removed, and an entry with the
    scheme `auth` is replaced by entries for the client's identities. Raises RequestError for a list that is empty or
    has an unknown scheme."""
    entries: list[Entry] = []
    for entry in dict.fromkeys(asked):
        perms, scheme, name = entry
        if scheme == b"world" and name == b"anyone":
            entries.append(entry)
        elif scheme == b"auth":
            own = [(perms, *identity) for identity in identities if identity[0] == b"digest"]
            if not own:
                raise RequestError(ErrorCode.INVALID_ACL)
            entries += own
        elif (scheme == b"digest" and _is_digest(name)) or (scheme == b"ip" and _network(name) is not None):
            entries.append(entry)
        else:
            raise RequestError(ErrorCode.INVALID_ACL)
    if not entries:
        raise RequestError(ErrorCode.INVALID_ACL)
    return tuple(entries)


def is_allowed(acl: Acl, wanted: int, identities: Iterable[Identity]) -> bool:
    """Returns whether a client with these identities has one of the wanted permissions."""
    identities = tuple(identities)
    if not acl or SUPER in identities:
        return True
    for perms, scheme, name in acl:
        if not perms & wanted:
            continue
        if scheme == b"world" and name == b"anyone":
            return True
        for own_scheme, own_name in identities:
            if own_scheme == scheme and (own_name == name if scheme != b"ip" else _is_within(own_name, name)):
                return True
    return False


def identities_shown(acl: Acl) -> Acl:
    """Returns the list as it is shown to a client that may not administer the record, that is, without the digests of
    passwords."""
    return tuple(
        (perms, scheme, name.partition(b":")[0] + b":x" if scheme == b"digest" and b":" in name else name)
        for perms, scheme, name in acl
    )


def digest_identities(credential: bytes, super_digest: bytes | None) -> list[Identity]:
    """Returns the identities of a client that sent the credential "user:password"."""
    user = credential.partition(b":")[0]
    digest = user + b":" + base64.b64encode(hashlib.sha1(credential).digest())
    return [SUPER, (b"digest", digest)] if digest == super_digest else [(b"digest", digest)]


def user_names(identities: Iterable[Identity]) -> bytes:
    """Returns the fields of the answer to whoAmI."""
    clients = [
        answers.text(scheme) + answers.text(name.partition(b":")[0] if scheme == b"digest" else name)
        for scheme, name in identities
    ]
    return answers.number(len(clients)) + b"".join(clients)


def _is_digest(name: bytes) -> bool:
    """Returns whether Java's split(":") makes two parts of the id. This split drops empty parts at the end."""
    parts = name.split(b":")
    while parts and not parts[-1]:
        parts.pop()
    return len(parts) == 2


def _network(name: bytes) -> "ipaddress.IPv4Network | ipaddress.IPv6Network | None":
    """Returns the network that an id "address/bits" stands for, or None for an id that makes no sense."""
    address, slash, bits = name.partition(b"/")
    try:
        whole = ipaddress.ip_address(address.decode("ascii"))
        if slash and not 0 <= int(bits) <= whole.max_prefixlen:
            return None
        return ipaddress.ip_network((whole, int(bits) if slash else whole.max_prefixlen), strict=False)
    except ValueError:
        return None


def _is_within(address: bytes, name: bytes) -> bool:
    network = _network(name)
    own = _network(address)
    return network is not None and own is not None and own.network_address in network
