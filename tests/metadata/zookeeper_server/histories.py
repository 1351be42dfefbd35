"""Random histories of requests, told to a server, and its answers in a form that can be compared between servers.

What may differ between two servers is put in its place: times go, ids of sessions become names, and the numbers of
transactions become ranks, as Java counts failed requests and we do not.
"""

import random
import struct
from dataclasses import dataclass, field

from tests.metadata.zookeeper_server import raw_client as raw
from tests.metadata.zookeeper_server.raw_client import Frame, RawClient

SESSIONS = 3
STEPS = 45
STAT = struct.Struct(">qqqqiiiqiiq")
NULL = b"(null)"
NAMES = ("a", "b", "a/c", "a/c/d", "b/e", "k", "k/m", "ü")
ODD_PATHS = ("", "/", "x", "//", "/.", "/../a", "/zookeeper", "/zookeeper/config", "/a\0b", "/\ud7ff")
ALICE = "alice:+cjLcWgcz0zHXyIZbz3hQBqHPLQ="
ACLS: tuple[raw.Acl, ...] = (
    raw.OPEN,
    raw.OPEN,
    raw.OPEN,
    ((1, "world", "anyone"),),
    ((31, "auth", ""),),
    ((31, "digest", "bob:xxx"), (1, "world", "anyone")),
    ((31, "ip", "127.0.0.1"),),
    ((31, "ip", "127.0.0.0/8"), (31, "ip", "127.0.0.0/8")),
    ((31, "ip", "10.0.0.0/33"),),
    ((31, "nobody", "x"),),
    ((31, "digest", "nocolon"),),
    (),
)

Request = tuple[int, bytes]


@dataclass
class Step:
    """Requests that one session sends at once."""

    session: int
    requests: list[Request]
    ends: bool = False
    credential: bytes | None = None


@dataclass
class Told:
    """What a server answered to a history: for each step the frames of each session, comparable."""

    steps: list[list[list[tuple[object, ...]]]] = field(default_factory=list)


def history(seed: int) -> list[Step]:
    """Returns the steps of a history below /hSEED, which its first step makes."""
    rng = random.Random(seed)
    root = f"/h{seed:06d}"
    steps = [Step(0, [(raw.CREATE2, raw.create(root, b"root"))])]
    for _ in range(STEPS):
        kind, session = rng.random(), rng.randrange(SESSIONS)
        if kind < 0.03:
            steps.append(Step(session, [], ends=True))
        elif kind < 0.08:
            steps.append(Step(session, [], credential=rng.choice([b"alice:secret", b"bob:b", b"carl:"])))
        else:
            steps.append(Step(session, [_request(rng, root) for _ in range(rng.choice((1, 1, 2, 4)))]))
    return steps


def _path(rng: random.Random, root: str) -> str:
    if rng.random() < 0.04:
        return rng.choice(ODD_PATHS)
    return root if rng.random() < 0.1 else f"{root}/{rng.choice(NAMES)}"


def _version(rng: random.Random) -> int:
    return rng.choice((-1, -1, -1, 0, 0, 1, 2, 7))


def _data(rng: random.Random) -> bytes | None:
    return rng.choice((None, b"", b"x", b"some data", bytes(range(256))))


def _create(rng: random.Random, root: str) -> Request:
    path, flags = _path(rng, root), rng.choice((0, 0, 0, 1, 2, 3, 4, 5, 9))
    if flags in (2, 3) and rng.random() < 0.5:
        path += rng.choice(("/", "-", "/n-"))
    entries = rng.choice(ACLS)
    if rng.random() < 0.06:
        return raw.CREATE_TTL, raw.create(path, _data(rng), flags, entries) + struct.pack(">q", 1000)
    kinds = (raw.CREATE, raw.CREATE, raw.CREATE2, raw.CREATE2, raw.CREATE_CONTAINER)
    kind = rng.choice(kinds)
    if kind == raw.CREATE_CONTAINER and flags in (1, 3):
        # Java takes such a record for ephemeral until it is committed, and for a container from then on.
        kind = raw.CREATE2
    return kind, raw.create(path, _data(rng), flags, entries)


def _write(rng: random.Random, root: str) -> Request:
    path = _path(rng, root)
    match rng.randrange(8):
        case 0 | 1 | 2:
            return _create(rng, root)
        case 3 | 4:
            return raw.SET_DATA, raw.text(path) + raw.buffer(_data(rng)) + raw.number(_version(rng))
        case 5 | 6:
            return raw.DELETE, raw.text(path) + raw.number(_version(rng))
    return raw.CHECK, raw.text(path) + raw.number(_version(rng))


def _watch(rng: random.Random, root: str) -> Request:
    paths = [_path(rng, root) for _ in range(5)]
    kind = rng.randrange(6)
    if kind < 2:
        return raw.ADD_WATCH, raw.text(paths[0]) + raw.number(rng.choice((0, 1)))
    if kind == 2:
        return raw.REMOVE_WATCHES, raw.text(paths[0]) + raw.number(rng.choice((1, 2, 3)))
    if kind == 3:
        return raw.CHECK_WATCHES, raw.text(paths[0]) + raw.number(rng.choice((1, 2, 3)))
    zxid = struct.pack(">q", rng.choice((0, 2**62)))
    once = zxid + raw.texts(paths[:1]) + raw.texts(paths[1:2]) + raw.texts(paths[2:3])
    if kind == 4:
        return raw.SET_WATCHES, once
    return raw.SET_WATCHES2, once + raw.texts(paths[3:4]) + raw.texts(paths[4:])


def _read(rng: random.Random, root: str) -> Request:
    path, watch = _path(rng, root), rng.random() < 0.6
    match rng.randrange(12):
        case 0 | 1:
            return raw.EXISTS, raw.watched(path, watch)
        case 2 | 3:
            return raw.GET_DATA, raw.watched(path, watch)
        case 4:
            return raw.GET_CHILDREN, raw.watched(path, watch)
        case 5 | 6:
            return raw.GET_CHILDREN2, raw.watched(path, watch)
        case 7:
            return raw.GET_ACL, raw.text(path)
        case 8:
            below = path if path.startswith("/h") else root
            return raw.GET_ALL_CHILDREN_NUMBER, raw.text(below)
        case 9:
            return raw.GET_EPHEMERALS, raw.text(rng.choice((root, path, f"{root}/a")))
        case 10:
            reads = [
                (rng.choice((raw.GET_DATA, raw.GET_CHILDREN)), raw.watched(_path(rng, root)))
                for _ in range(rng.randrange(3))
            ]
            return raw.MULTI_READ, raw.multi(*reads)
    return rng.choice(((raw.SYNC, raw.text(path)), (raw.WHO_AM_I, b"")))


def _request(rng: random.Random, root: str) -> Request:
    kind = rng.random()
    if kind < 0.4:
        write = _write(rng, root)
        return write if write[0] != raw.CHECK else (raw.MULTI, raw.multi(write))
    if kind < 0.52:
        return raw.MULTI, raw.multi(*(_write(rng, root) for _ in range(rng.randrange(5))))
    if kind < 0.56:
        return raw.SET_ACL, raw.text(_path(rng, root)) + raw.acl(rng.choice(ACLS)) + raw.number(_version(rng))
    if kind < 0.6:
        opcode, fields = _write(rng, root) if rng.random() < 0.5 else _read(rng, root)
        if opcode not in (raw.CHECK, raw.WHO_AM_I, raw.GET_EPHEMERALS):
            return opcode, fields[: rng.randrange(len(fields))]  # a malformed one
    return _watch(rng, root) if kind < 0.75 else _read(rng, root)


class Teller:
    """Tells histories to one server."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._clients: list[RawClient] = []
        self._names: dict[int, str] = {}
        self._zxids: set[int] = set()

    async def tell(self, steps: list[Step]) -> Told:
        self._clients = [await self._connected(f"s{number}") for number in range(SESSIONS)]
        told = Told()
        for number, step in enumerate(steps):
            frames: list[list[tuple[object, ...]]] = [[] for _ in self._clients]
            client = self._clients[step.session]
            if step.credential is not None:
                packet = raw.number(0) + raw.text("digest") + raw.buffer(step.credential)
                client.ask(raw.AUTH, packet, xid=-4)
                frames[step.session] += map(self._comparable, await client.until(-4), [raw.AUTH] * 9)
            kinds = {client.ask(opcode, fields): opcode for opcode, fields in step.requests}
            for xid, opcode in kinds.items():
                for frame in await client.until(xid):
                    frames[step.session].append(self._comparable(frame, opcode))
            if step.ends:
                await client.call(raw.CLOSE)
                self._clients[step.session] = await self._connected(f"s{step.session} after {number}")
            for other, each in enumerate(self._clients):
                events = [
                    self._comparable(one, raw.SYNC) for one in (await each.until(each.ask(raw.SYNC, raw.text("/"))))
                ]
                frames[other] += sorted(events[:-1], key=repr) if step.ends else events[:-1]
            told.steps.append(frames)
        for client in self._clients:
            await client.call(raw.CLOSE)
            await client.close()
        return self._ranked(told)

    async def _connected(self, name: str) -> RawClient:
        client = await RawClient.connect(self._port)
        self._names[client.session_id] = name
        return client

    def _comparable(self, frame: Frame, opcode: int) -> tuple[object, ...]:
        if frame.xid == -1:
            kind, state, length = struct.unpack_from(">iii", frame.fields)
            self._zxids.add(frame.zxid)
            return "event", kind, state, frame.fields[12 : 12 + length], ("zxid", frame.zxid)
        return opcode, frame.error, self._fields(opcode, frame.fields) if frame.error == 0 else frame.fields

    def _fields(self, opcode: int, fields: bytes) -> object:
        if opcode in (raw.CREATE2, raw.CREATE_CONTAINER, raw.CREATE_TTL):
            path, rest = _cut(fields)
            return path, self._stat(rest)
        if opcode in (raw.SET_DATA, raw.SET_ACL, raw.EXISTS):
            return self._stat(fields)
        if opcode == raw.GET_DATA:
            data, rest = _cut(fields)
            return data, self._stat(rest)
        if opcode in (raw.GET_CHILDREN, raw.GET_CHILDREN2, raw.GET_EPHEMERALS):
            names, rest = _cut_many(fields)
            return sorted(names), self._stat(rest) if rest else rest
        if opcode == raw.GET_ACL:
            return fields[:-68], self._stat(fields[-68:])
        if opcode in (raw.MULTI, raw.MULTI_READ):
            return self._results(fields)
        if opcode == raw.WHO_AM_I:
            return sorted(_pairs(fields))  # Java keeps them as a set
        return fields

    def _results(self, fields: bytes) -> list[object]:
        results: list[object] = []
        while True:
            kind, done, error = struct.unpack_from(">ibi", fields)
            fields = fields[9:]
            if done:
                return [*results, ("done", kind, error, fields)]
            if kind == -1:
                results.append((kind, error, fields[:4]))
                fields = fields[4:]
            elif kind in (raw.CREATE, raw.CREATE2, raw.CREATE_CONTAINER, raw.CREATE_TTL, raw.GET_DATA):
                value, fields = _cut(fields)
                has_stat = kind != raw.CREATE
                results.append((kind, error, value, self._stat(fields[:68]) if has_stat else None))
                fields = fields[68:] if has_stat else fields
            elif kind == raw.SET_DATA:
                results.append((kind, error, self._stat(fields[:68])))
                fields = fields[68:]
            elif kind == raw.GET_CHILDREN:
                names, fields = _cut_many(fields)
                results.append((kind, error, sorted(names)))
            else:
                results.append((kind, error))

    def _stat(self, packed: bytes) -> tuple[object, ...]:
        czxid, mzxid, ctime, mtime, version, cversion, aversion, owner, length, children, pzxid = STAT.unpack(packed)
        self._zxids.update((czxid, mzxid, pzxid))
        zxids = ("zxid", czxid), ("zxid", mzxid), ("zxid", pzxid)
        later = mtime >= ctime
        return *zxids, later, version, cversion, aversion, self._names.get(owner, owner), length, children

    def _ranked(self, told: Told) -> Told:
        ranks = {zxid: rank for rank, zxid in enumerate(sorted(zxid for zxid in self._zxids if zxid > 0), start=1)}

        def ranked(value: object) -> object:
            if isinstance(value, tuple) and len(value) == 2 and value[0] == "zxid":
                return "zxid", ranks.get(value[1], value[1])
            if isinstance(value, tuple):
                return tuple(ranked(one) for one in value)
            if isinstance(value, list):
                return [ranked(one) for one in value]
            return value

        return Told([[[ranked(one) for one in frames] for frames in step] for step in told.steps])  # type: ignore[misc]


def _cut(fields: bytes) -> tuple[bytes, bytes]:
    (length,) = struct.unpack_from(">i", fields)
    return (NULL, fields[4:]) if length < 0 else (fields[4 : 4 + length], fields[4 + length :])


def _cut_many(fields: bytes) -> tuple[list[bytes], bytes]:
    (count,) = struct.unpack_from(">i", fields)
    fields, names = fields[4:], []
    for _ in range(count):
        name, fields = _cut(fields)
        names.append(name)
    return names, fields


def _pairs(fields: bytes) -> list[tuple[bytes, bytes]]:
    (count,) = struct.unpack_from(">i", fields)
    fields, pairs = fields[4:], []
    for _ in range(count):
        scheme, fields = _cut(fields)
        user, fields = _cut(fields)
        pairs.append((scheme, user))
    return pairs


def shown(steps: list[Step], java: Told, own: Told) -> str:
    """Returns the first difference, with the requests that led to it."""
    for number, (step, left, right) in enumerate(zip(steps, java.steps, own.steps, strict=True)):
        for session, (expected, found) in enumerate(zip(left, right, strict=True)):
            if expected != found:
                requests = "\n".join(f"  {opcode} {fields!r}" for opcode, fields in step.requests)
                head = f"step {number} by session {step.session} (ends: {step.ends}, {step.credential!r}):\n{requests}"
                java_lines = "\n  ".join(map(repr, expected))
                own_lines = "\n  ".join(map(repr, found))
                return f"{head}\nsession {session} hears from Java\n  {java_lines}\nand from ours\n  {own_lines}"
    return ""
