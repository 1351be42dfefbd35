"""The protocol of one connection to the bookie's port: the bytes of one socket read go in, and works (units of work for
the bookie) come out. No I/O, no clock.

    bytes   add L7 e1 │ add L7 e2 │ add L9 e5 │ add L7 e3 │ read L9 e0 │ read L9 e1 │ add L7 e4 │ half a packet
    works   WireAdds L7 [e1 e2 e3]   WireAdds L9 [e5]       ReadRun L9 e0, count 2    WireAdds L7 [e4]

All adds of one socket read that go to one ledger with one key and flags become one `WireAdds`. This grouping is safe
because an add overtakes only adds of other ledgers, and no order is promised between ledgers. An add never overtakes
another kind of request that the bookie serves, and no such request overtakes an add. Plain reads of consecutive entries
become one `ReadRun`, which the bookie can serve with one look-up.

A connection may speak v3 until its first v2 packet, and only v2 from then on (BookieProtoEncoding.RequestDecoder of
BookKeeper 4.17). The session itself answers requests that need no bookie: wrong versions (the answer echoes the version
of the request, as Apache's bookie does), AUTH without a provider, START_TLS without TLS, operations that nobody serves,
and entries that are too short to be stored.

If a packet does not decode, `fault` says what is wrong. The caller still serves the packets before it, and then closes
the connection without an answer.
"""

from collections.abc import Callable, Sequence
from struct import Struct
from typing import NamedTuple

from magnetar.storage.bookie.ledger_state import ENTRY_BYTES_MIN
from pulsar_proto.errors import MalformedFrame
from pulsar_proto.pb import bookkeeper_pb2 as pb
from pulsar_proto.wire import bookie_wire as v2
from pulsar_proto.wire import bookie_wire_v3 as v3
from pulsar_proto.wire.bookie_wire import BookieRc, ReadFlags
from pulsar_proto.wire.read_buffer import LENGTH_BYTES

_V2_ADD_HEAD = Struct(">II20sqq")
"""The beginning of a v2 add, up to the entry's ids: length, one word of version, opcode and flags, master key, ledger
id, entry id."""
_V2_ADD_ENTRY_OFFSET = 28
_V2_ADD_SIZE_MIN = 24 + ENTRY_BYTES_MIN
_V2_ADD = 0x0201_0000
_V2_READ = 0x0202_0000
_ANY_ADD_FLAGS = ~0x6
_ANY_READ_PRIORITY = ~0x4
_IDS = Struct(">qq")
_LAC = Struct(">q")
_LAC_OFFSET = 16

AddSink = Callable[["WireAdds", int], None]


class WireAdds:
    """Adds of one ledger, on their way to the bookie and back.

    The object itself is the `done` callback that the bookie gets, so that no closure is made for a group: the
    connection sets `sink` first, and the object passes the call on to `sink`. `echoes` is None in v2. In v3 it holds
    each request's txnId and ids, which the answer repeats and which need not be the ids of the entry.
    """

    __slots__ = ("echoes", "entries", "entry_ids", "flags", "ledger_id", "master_key", "sink", "size", "version")

    sink: AddSink

    def __init__(
        self, ledger_id: int, master_key: bytes, flags: int, version: int, *, with_echoes: bool = False
    ) -> None:
        self.ledger_id = ledger_id
        self.master_key = master_key
        self.flags = flags
        self.version = version
        self.entry_ids: list[int] = []
        self.entries: list[bytes] = []
        self.echoes: list[v3.Echo] | None = [] if with_echoes else None
        self.size = 0
        """The total size of the entries in bytes, once `measure` has counted it."""

    def __call__(self, entry_ids: Sequence[int], rc: int) -> None:
        assert len(entry_ids) == len(self.entry_ids), (entry_ids, self.entry_ids)
        self.sink(self, rc)

    def measure(self) -> int:
        """Counts the bytes of the entries, and returns them."""
        self.size = sum(map(len, self.entries))
        return self.size

    def ids(self) -> Sequence[int]:
        """Returns the entry ids. Consecutive ids, the usual case, are returned as a range."""
        ids = self.entry_ids
        run = range(ids[0], ids[0] + len(ids))
        return run if ids[-1] == run[-1] and ids == list(run) else ids

    def last_add_confirmed(self) -> int:
        """Returns the LAC in the last entry, which is the highest of the group because a writer's LAC never goes
        back."""
        return int(_LAC.unpack_from(self.entries[-1], _LAC_OFFSET)[0])


class ReadRun:
    """Plain reads of `count` consecutive entries from `first_entry_id` on; a read of the last entry (-1) is a run of
    its own."""

    __slots__ = ("count", "first_entry_id", "ledger_id", "txns", "version")

    def __init__(self, ledger_id: int, first_entry_id: int, version: int, txn_id: int | None = None) -> None:
        self.ledger_id = ledger_id
        self.first_entry_id = first_entry_id
        self.count = 1
        self.version = version
        self.txns = None if txn_id is None else [txn_id]
        """The txnIds of the requests in v3; None in v2."""


class FenceRead(NamedTuple):
    """A read that fences the ledger first."""

    ledger_id: int
    entry_id: int
    flags: int
    master_key: bytes
    version: int
    txn_id: int | None
    """The txnId of the request in v3; None in v2."""


WireWork = WireAdds | ReadRun | FenceRead | v2.BatchReadRequest | pb.Request | bytes
"""A unit of work that the connection has to do. A `pb.Request` is a long poll, WRITE_LAC, READ_LAC, GET_BOOKIE_INFO,
FORCE_LEDGER or GET_LIST_OF_ENTRIES; bytes are an answer that is ready to be sent."""

_V3_CALLS = frozenset(
    {pb.WRITE_LAC, pb.READ_LAC, pb.GET_BOOKIE_INFO, pb.FORCE_LEDGER, pb.GET_LIST_OF_ENTRIES_OF_LEDGER}
)
_AUTH_DISABLED = pb.AuthMessage(authPluginName=v3.AUTH_DISABLED_PLUGIN, payload=b"")


class WireSession:
    """The protocol state of one connection."""

    __slots__ = ("_groups", "_v2_only", "_works", "fault")

    def __init__(self) -> None:
        self._v2_only = False
        self._works: list[WireWork] = []
        self._groups: dict[int, WireAdds] = {}
        self.fault: str | None = None

    def take(self, data: bytes) -> tuple[list[WireWork], int]:
        """Returns the works for the packets in `data`, in order, and the offset where the first unfinished packet
        begins. The offset means nothing when `fault` is set."""
        start = 0
        try:
            start = self._walk(data)
        except MalformedFrame as error:
            self.fault = str(error)
        self._groups.clear()
        works, self._works = self._works, []
        return works, start

    def _walk(self, data: bytes) -> int:
        """Takes all whole packets and returns where the first unfinished one begins. Raises MalformedFrame.

        The usual v2 add takes a short path that costs 0.7 µs. One `unpack` reads the head of a packet as if the packet
        were an add. If the word in the head is that of an add, and if word, ledger and key equal those of the previous
        add, the entry joins the group of the previous add: two lists grow, and nothing else has to be decided. This is
        safe because `open_word` is set to -1, which no packet has, whenever something other than a v2 add comes in
        between.

            size u32 │ version, opcode, flags u32 │ master key 20 │ ledger id i64 │ entry id i64 │ LAC …
                                                                  ╰ the entry, which is kept as it is
        """
        head = _V2_ADD_HEAD.unpack_from
        last_head = len(data) - _V2_ADD_HEAD.size
        end = len(data)
        start = 0
        group: WireAdds | None = None  # The group of the v3 add before this packet.
        open_word, open_ledger, open_key = -1, 0, b""  # The head of the v2 add before this packet.
        add_id = list[int]().append
        add_entry = list[bytes]().append
        while start + LENGTH_BYTES <= end:
            if start <= last_head:
                size, word, key, ledger_id, entry_id = head(data, start)
            else:
                size, word = int.from_bytes(data[start : start + LENGTH_BYTES], "big"), 0
            stop = start + LENGTH_BYTES + size
            if stop > end:
                break
            if word & _ANY_ADD_FLAGS == _V2_ADD and size >= _V2_ADD_SIZE_MIN:
                if word != open_word or ledger_id != open_ledger or key != open_key:
                    open_word, open_ledger, open_key = word, ledger_id, key
                    v2_group = self._group(ledger_id, key, word & 0xFFFF, v2.CURRENT_VERSION)
                    add_id, add_entry = v2_group.entry_ids.append, v2_group.entries.append
                    group = None
                add_id(entry_id)
                add_entry(data[start + _V2_ADD_ENTRY_OFFSET : stop])
            elif self._v2_only or (usual := v3.usual_add(data, start + LENGTH_BYTES, stop)) is None:
                self._packet(data[start + LENGTH_BYTES : stop])
                group, open_word = None, -1
            else:
                echo, key, body_start = usual
                group = self._store_v3(echo, key, 0, data[body_start:stop], group)
            start = stop
        return start

    def _group(self, ledger_id: int, key: bytes, flags: int, version: int, *, with_echoes: bool = False) -> WireAdds:
        """Returns the open group for adds with this ledger, key, flags and version. Opens a new group if no such
        group is open."""
        group = self._groups.get(ledger_id)
        if (
            group is None
            or group.master_key != key
            or group.flags != flags
            or group.version != version
            or (group.echoes is not None) != with_echoes
        ):
            group = WireAdds(ledger_id, key, flags, version, with_echoes=with_echoes)
            self._groups[ledger_id] = group
            self._works.append(group)
            if not with_echoes:
                self._v2_only = True
        return group

    def _packet(self, packet: bytes) -> None:
        """Takes a packet that is no usual add. Raises MalformedFrame."""
        if not self._v2_only and packet[:1] == b"\x0a":
            self._v3_request(v3.parse_request(packet))
            return
        self._v2_only = True
        if len(packet) == 20 and int.from_bytes(packet[:4], "big") & _ANY_READ_PRIORITY == _V2_READ:
            ledger_id, entry_id = _IDS.unpack_from(packet, 4)
            self._read(ledger_id, entry_id, v2.CURRENT_VERSION, None)
        else:
            self._v2_request(v2.decode_request(packet))

    def _v2_request(self, request: v2.Request) -> None:
        works = self._works
        version = request.version
        if isinstance(request, v2.AuthRequest):
            works.append(v2.auth_response(_AUTH_DISABLED.SerializeToString()))
            return
        ledger_id, entry_id = request.ledger_id, request.entry_id
        bad_version = version > v2.CURRENT_VERSION
        if isinstance(request, v2.AddRequest):
            if bad_version or len(request.entry) < ENTRY_BYTES_MIN:
                rc = BookieRc.EBADVERSION if bad_version else BookieRc.EBADREQ
                works.append(v2.add_response(rc, ledger_id, entry_id, version))
                return
            group = self._group(ledger_id, request.master_key, request.flags, version)
            group.entry_ids.append(entry_id)
            group.entries.append(request.entry)
        elif isinstance(request, v2.ReadRequest):
            if bad_version:
                works.append(v2.read_response(BookieRc.EBADVERSION, ledger_id, entry_id, version=version))
            elif request.flags & ReadFlags.FENCING:
                self._order(works, FenceRead(ledger_id, entry_id, request.flags, request.master_key, version, None))
            else:
                self._read(ledger_id, entry_id, version, None)
        elif bad_version:
            answer = v2.batch_read_response(BookieRc.EBADVERSION, ledger_id, entry_id, request.request_id, (), version)
            works.append(answer)
        else:
            self._order(works, request)

    def _v3_request(self, request: pb.Request) -> None:
        header = request.header
        operation = header.operation
        if header.version != pb.VERSION_THREE:
            self._works.append(v3.refusal(request, BookieRc.EBADVERSION))
        elif operation == pb.ADD_ENTRY:
            self._v3_add(request)
        elif operation == pb.READ_ENTRY:
            self._v3_read(request)
        elif operation == pb.AUTH:
            answer = v3.response_to(request, BookieRc.EOK)
            answer.authResponse.CopyFrom(_AUTH_DISABLED)
            self._works.append(v3.frame(answer))
        elif operation in _V3_CALLS:
            self._order(self._works, request)
        else:
            self._works.append(v3.refusal(request, BookieRc.EBADREQ))

    def _v3_add(self, request: pb.Request) -> None:
        add = request.addRequest
        echo = v3.echo_of(request.header.txnId, add.ledgerId, add.entryId)
        self._store_v3(echo, add.masterKey, v3.add_flags(request), add.body)

    def _store_v3(
        self, echo: v3.Echo, key: bytes, flags: int, body: bytes, group: WireAdds | None = None
    ) -> WireAdds | None:
        """Adds an entry to a group and returns the group, or refuses an entry that is too short and returns None. The
        entry is stored under the ids that it begins with; the answer only echoes the ids of the request, as Apache's
        bookie does. `group` is the group of the previous add, which is probably the group for this add, too."""
        if len(body) < ENTRY_BYTES_MIN:
            self._works.append(v3.add_responses(BookieRc.EBADREQ, (echo,)))
            return None
        ledger_id, entry_id = _IDS.unpack_from(body)
        if (
            group is None
            or group.ledger_id != ledger_id
            or group.flags != flags
            or group.master_key != key
            or group.echoes is None
        ):
            group = self._group(ledger_id, key, flags, 3, with_echoes=True)
        assert group.echoes is not None
        group.echoes.append(echo)
        group.entry_ids.append(entry_id)
        group.entries.append(body)
        return group

    def _v3_read(self, request: pb.Request) -> None:
        """Takes a v3 read. A read without a readRequest asks for ledger 0, entry 0, as it does at Apache's bookie."""
        read = request.readRequest
        if v3.is_fencing(read):
            flags = ReadFlags.FENCING | (ReadFlags.HIGH_PRIORITY if request.header.priority else 0)
            fence = FenceRead(read.ledgerId, read.entryId, flags, read.masterKey, 3, request.header.txnId)
            self._order(self._works, fence)
        elif read.HasField("previousLAC"):
            self._order(self._works, request)
        else:
            self._read(read.ledgerId, read.entryId, 3, request.header.txnId)

    def _read(self, ledger_id: int, entry_id: int, version: int, txn_id: int | None) -> None:
        """Adds a plain read to the last run if that run ends right before the entry; else begins a new run."""
        works = self._works
        run = works[-1] if works else None
        if (
            isinstance(run, ReadRun)
            and run.ledger_id == ledger_id
            and run.version == version
            and run.first_entry_id >= 0
            and run.first_entry_id + run.count == entry_id
        ):
            run.count += 1
            if run.txns is not None and txn_id is not None:
                run.txns.append(txn_id)
            return
        self._order(works, ReadRun(ledger_id, entry_id, version, txn_id))

    def _order(self, works: list[WireWork], work: WireWork) -> None:
        """Appends a request that later adds must not overtake, and closes the open groups."""
        works.append(work)
        self._groups.clear()


# ---- answers --------------------------------------------------------------------------------------------------------

_ADD_ANSWER_HEAD = Struct(">IIiq").pack
_ADD_ANSWER_SIZE = 24
_ID = Struct(">q").pack


def add_answers(group: WireAdds, rc: int) -> bytes:
    """Returns the answers to all adds of a group, joined."""
    if group.echoes is not None:
        return v3.add_responses(rc, group.echoes)
    word = group.version << 24 | v2.OpCode.ADD_ENTRY << 16 if group.version else int(v2.OpCode.ADD_ENTRY)
    head = _ADD_ANSWER_HEAD(_ADD_ANSWER_SIZE, word, rc, group.ledger_id)
    return b"".join([head + _ID(entry_id) for entry_id in group.entry_ids])


def read_answers(run: ReadRun, offset: int, entries: Sequence[bytes], max_lac: int | None) -> bytes:
    """Returns the joined answers to the reads of a run, one answer for each of `entries`. The first answer is for the
    read number `offset`. `max_lac`, the ledger's known LAC, is for v3 only."""
    first, ledger_id = run.first_entry_id + offset, run.ledger_id
    if run.txns is None:
        return b"".join(
            [
                v2.read_response(BookieRc.EOK, ledger_id, entry_id, entry, run.version)
                for entry_id, entry in enumerate(entries, first)
            ]
        )
    return b"".join(
        [
            v3.read_response(BookieRc.EOK, run.txns[entry_id - run.first_entry_id], ledger_id, entry_id, entry, max_lac)
            for entry_id, entry in enumerate(entries, first)
        ]
    )


def read_refusal(run: ReadRun, offset: int, rc: int) -> bytes:
    """Returns the answer with the error code `rc` to the read number `offset` of a run."""
    entry_id = run.first_entry_id + offset
    if run.txns is None:
        return v2.read_response(rc, run.ledger_id, entry_id, version=run.version)
    return v3.read_response(rc, run.txns[offset], run.ledger_id, entry_id)


def fence_answer(fence: FenceRead, rc: int, entry: bytes | None) -> bytes:
    """Returns the answer to a fencing read. Like the answer of Apache's bookie, it carries no maxLAC."""
    if fence.txn_id is None:
        return v2.read_response(rc, fence.ledger_id, fence.entry_id, entry or b"", fence.version)
    return v3.read_response(rc, fence.txn_id, fence.ledger_id, fence.entry_id, entry)
