"""Parses the write requests of clients from Jute, ZooKeeper's encoding. Source: zookeeper.jute, CreateMode,
MultiOperationRecord."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from magnetar.metadata.zookeeper_codes import ErrorCode
from magnetar.metadata.zookeeper_server.acl_rules import Acl
from magnetar.metadata.zookeeper_server.jute_reader import JuteReader
from magnetar.metadata.zookeeper_server.protocol import MalformedRequestError, OpCode, RequestError

NO_TTL = -1


class CreateMode(NamedTuple):
    """The meaning of the flags of a create."""

    ephemeral: bool
    sequential: bool


_MODES = {
    0: CreateMode(False, False),
    1: CreateMode(True, False),
    2: CreateMode(False, True),
    3: CreateMode(True, True),
    4: CreateMode(False, False),  # these flags mean a container, but only the type of the request makes one
}
_TTL_FLAGS = (5, 6)
_CONTAINER_FLAG = 4


class Create(NamedTuple):
    """Any of the four requests that create a record. `opcode` is the type of the request."""

    opcode: OpCode
    path: bytes
    data: bytes | None
    acl: Acl
    flags: int
    ttl_ms: int = NO_TTL

    def mode(self) -> CreateMode:
        """Returns the meaning of the flags. Raises RequestError for unknown flags, and for records with a time to live,
        which Java also refuses unless the operator enables extended types
        (PrepRequestProcessor.validateCreateRequest)."""
        if self.flags in _TTL_FLAGS:
            raise RequestError(ErrorCode.UNIMPLEMENTED)
        mode = _MODES.get(self.flags)
        if mode is None or self.opcode == OpCode.CREATE_TTL:
            raise RequestError(ErrorCode.BAD_ARGUMENTS)
        return mode


class Delete(NamedTuple):
    """A delete, or the deletion of an empty container, which has no version."""

    opcode: OpCode
    path: bytes
    version: int


class SetData(NamedTuple):
    opcode: OpCode
    path: bytes
    data: bytes | None
    version: int


class SetAcl(NamedTuple):
    opcode: OpCode
    path: bytes
    acl: Acl
    version: int


class Check(NamedTuple):
    """Changes nothing, but fails when the record has another version."""

    opcode: OpCode
    path: bytes
    version: int


WriteOp = Create | Delete | SetData | SetAcl | Check


def _create(opcode: OpCode, reader: JuteReader) -> Create:
    return Create(opcode, reader.text(), reader.buffer(), reader.acl(), reader.number())


def _create_ttl(opcode: OpCode, reader: JuteReader) -> Create:
    return Create(opcode, reader.text(), reader.buffer(), reader.acl(), reader.number(), reader.long_number())


def _delete(opcode: OpCode, reader: JuteReader) -> Delete:
    return Delete(opcode, reader.text(), reader.number())


def _delete_container(opcode: OpCode, reader: JuteReader) -> Delete:
    return Delete(opcode, reader.text(), NO_TTL)


def _set_data(opcode: OpCode, reader: JuteReader) -> SetData:
    return SetData(opcode, reader.text(), reader.buffer(), reader.number())


def _set_acl(opcode: OpCode, reader: JuteReader) -> SetAcl:
    return SetAcl(opcode, reader.text(), reader.acl(), reader.number())


def _check(opcode: OpCode, reader: JuteReader) -> Check:
    return Check(opcode, reader.text(), reader.number())


_PARSERS: dict[OpCode, Callable[[OpCode, JuteReader], WriteOp]] = {
    OpCode.CREATE: _create,
    OpCode.CREATE2: _create,
    OpCode.CREATE_CONTAINER: _create,
    OpCode.CREATE_TTL: _create_ttl,
    OpCode.DELETE: _delete,
    OpCode.DELETE_CONTAINER: _delete_container,
    OpCode.SET_DATA: _set_data,
    OpCode.SET_ACL: _set_acl,
    OpCode.CHECK: _check,
}
SINGLE_WRITES = frozenset(_PARSERS) - {OpCode.CHECK}
"""The types of requests that are a single write. A check is allowed only within a multi (Request.isValid)."""
_IN_MULTI = frozenset(_PARSERS) - {OpCode.SET_ACL, OpCode.DELETE_CONTAINER}
_IN_MULTI_READ = (OpCode.GET_CHILDREN, OpCode.GET_DATA)


def parse_write(opcode: OpCode, reader: JuteReader) -> WriteOp:
    """Parses the fields of a write. Raises MalformedRequestError when the bytes do not have these fields."""
    return _PARSERS[opcode](opcode, reader)


def parse_multi(reader: JuteReader) -> list[WriteOp]:
    """Parses the operations of a multi. Raises MalformedRequestError for malformed bytes, for flags that do not exist,
    and for reads, which Java accepts only in a multiRead."""
    ops: list[WriteOp] = []
    for kind in _headers(reader):
        if kind not in _IN_MULTI:
            raise MalformedRequestError(f"operation {kind} in a multi")
        op = parse_write(OpCode(kind), reader)
        ops.append(_create_in_multi(op) if isinstance(op, Create) else op)
    return ops


def _create_in_multi(op: Create) -> Create:
    """Returns a create of a multi with the type that its flags mean, because within a multi the flags have precedence
    over the type (Op.create of ZooKeeper 3.9). Raises MalformedRequestError for flags that do not exist or contradict
    the type."""
    if op.opcode == OpCode.CREATE_TTL:
        return op if op.flags in _TTL_FLAGS else op._replace(opcode=_opcode_of(op.flags, OpCode.CREATE))
    if op.flags not in _MODES:
        raise MalformedRequestError(f"flags {op.flags}")
    return op._replace(opcode=_opcode_of(op.flags, op.opcode))


def _opcode_of(flags: int, otherwise: OpCode) -> OpCode:
    return OpCode.CREATE_CONTAINER if flags == _CONTAINER_FLAG else otherwise


def parse_multi_read(reader: JuteReader) -> list[tuple[OpCode, bytes]]:
    """Parses the operations of a multiRead. Returns the type and path of each. Raises MalformedRequestError for
    malformed bytes."""
    reads = []
    for kind in _headers(reader):
        if kind not in _IN_MULTI_READ:
            raise MalformedRequestError(f"operation {kind} in a multiRead")
        reads.append((OpCode(kind), reader.text()))
        reader.flag()
    return reads


def _headers(reader: JuteReader) -> Iterator[int]:
    """Yields the types of the operations. The caller must read the fields of an operation before asking for the next
    type."""
    while True:
        kind = reader.number()
        is_done = reader.flag()
        reader.number()
        if is_done:
            return
        yield kind
