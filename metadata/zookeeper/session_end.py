"""Ends the ZooKeeper session of another process that is known to be dead.

Every client that knows the id and the password of a session can use the session. This client takes the session over by
a handshake and closes it (ZooKeeperServer.reopenSession, PrepRequestProcessor's closeSession): all ephemeral records of
the session vanish in one transaction, long before the session's timeout.
"""

import asyncio
import struct

from magnetar.metadata.errors import StoreUnavailableError
from magnetar.metadata.zookeeper import jute_codec as zk_codec
from magnetar.metadata.zookeeper.connect_string import ConnectString

SERVER_SECONDS_MAX = 2.0
"""How long one server may take for the handshake and the end of the session, before the next server is tried."""
TIMEOUT_MS = 30_000
"""The session timeout that the handshake asks for. It has no effect, because the session ends at once."""
REPLY_BYTES_MAX = 1 << 20
_CLOSE_XID = 1
_LENGTH = struct.Struct(">I")


async def end_session(connect: str, session_id: int, password: bytes) -> bool:
    """Ends the session. Returns False when the session was over already or never existed.

    The caller has to be sure that the process that made the session is dead. Raises StoreUnavailableError when no
    server has confirmed the end, ValueError for a bad connect string.
    """
    faults = []
    for host, port in ConnectString.parse(connect).servers:
        try:
            async with asyncio.timeout(SERVER_SECONDS_MAX):
                return await _end_at(host, port, session_id, password)
        except (OSError, EOFError, TimeoutError, struct.error, ValueError) as error:
            faults.append(f"{host}:{port}: {error!r}")
    raise StoreUnavailableError("/", f"session 0x{session_id & (2**64 - 1):x} was not ended: {', '.join(faults)}")


async def _end_at(host: str, port: int, session_id: int, password: bytes) -> bool:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(zk_codec.frame(zk_codec.connect_body(TIMEOUT_MS, 0, session_id, password)))
        if zk_codec.parse_connect_reply(await _read_frame(reader)).session_id == 0:
            return False
        writer.write(zk_codec.frame(zk_codec.close_body(), _CLOSE_XID))
        while zk_codec.parse_header(await _read_frame(reader))[0] != _CLOSE_XID:
            continue  # Events of watches may come before the answer.
        return True
    finally:
        writer.transport.abort()


async def _read_frame(reader: asyncio.StreamReader) -> bytes:
    (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
    if length > REPLY_BYTES_MAX:
        raise ValueError(f"a frame of {length} bytes")
    return await reader.readexactly(length)
