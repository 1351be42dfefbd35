"""A running server with transactions, and clients that speak bare commands to it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pulsar_proto.ids import TxnId
from tests.server.fakes import command
from tests.server.web.web_scene import Web, running
from tests.server.wire_client import Client

BASE = "/admin/v3/transactions"
MINUTE_MS = 60_000


@asynccontextmanager
async def enabled(folder: Path, **settings: str) -> AsyncIterator[Web]:
    """Runs a server whose coordinator is loaded."""
    async with running(folder, **settings) as web:
        client = await connected(web)
        await asked(client, "TC_CLIENT_CONNECT_REQUEST", "tcClientConnectRequest", request_id=1, tc_id=0)
        client.writer.close()
        yield web


async def connected(web: Web) -> Client:
    return await Client.connect(int(web.server.broker_url.rpartition(":")[2]))


async def asked(client: Client, kind: str, field: str, **values: Any) -> Any:
    """Sends a command and returns the body of its response."""
    client.say(command(kind, field, **values))
    return getattr(await client.answer(), field.removesuffix("Request") + "Response")


async def begun(client: Client) -> TxnId:
    answer = await asked(client, "NEW_TXN", "newTxn", request_id=1, txn_ttl_millis=MINUTE_MS)
    return TxnId(answer.txnid_most_bits, answer.txnid_least_bits)
