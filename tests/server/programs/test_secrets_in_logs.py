"""No log line holds a secret: credentials are put wherever a client may put them, in whole and in damaged frames, on
both ports."""

import asyncio
import base64
import logging
from pathlib import Path

import bcrypt
import jwt
import pytest

from pulsar_proto.wire.commands import simple_frame
from tests.server.fakes import command
from tests.server.web.web_scene import running

MARK = "Zq7SECRETzq7"
KEY = "k" * 40
PACKAGE = "org.apache.pulsar.broker.authentication.AuthenticationProvider"


def token(role: str = MARK, key: str = KEY, **claims: object) -> str:
    return jwt.encode({"sub": role, **claims}, key, algorithm="HS256")


def basic(user: str, password: str) -> str:
    return base64.b64encode(f"{user}:{password}".encode()).decode()


TOKENS = (MARK, f"{MARK}.{MARK}.{MARK}", token("x", "w" * 40), token("x", exp=1), token("x") + MARK, f"{MARK}\xff")
"""Tokens of which nothing may be seen in the log, neither the mark nor a part of the token."""
SECRETS = (
    MARK[:6],
    MARK[:4].encode().hex(),
    basic("dave", MARK),
    *(part for each in TOKENS for part in each.split(".")[1:]),
)

PLACES = (
    "Authorization: Bearer {0}",
    "Authorization: Basic {0}",
    "Authorization: {0}",
    "Authorization:Bearer\t{0}",
    "Authorization : Bearer {0}",
    "Authorization Bearer {0}",
    " Authorization: Bearer {0}",
    "Authorization: Bearer {0}\r\n {0}",
    "Authorization: Bearer {0}\r\n\t{0}: x",
    "Authorization: Bearer {0}\x00",
    "Authorization: Bearer {0}\n{0}",
    "Authorization: Bearer {0}\r{0}",
    "Auth(orization): Bearer {0}",
    "Authorization: Bearer {0}\r\nAuthorization: Bearer {0}",
    "X-Pulsar-Auth-Method-Name: token\r\nAuthorization: {0}",
    "X-Original-Principal: x\r\nX-Original-Auth: {0}",
    "Cookie: token={0}",
    "Content-Length: {0}",
    "Transfer-Encoding: {0}",
    "Content-Type: {0}\r\nContent-Length: 2\r\n\r\n{{}}",
    "Expect: {0}",
    "Host: {0}",
    "Upgrade: {0}\r\nConnection: Upgrade",
)
LINES = (
    "GET {0} HTTP/1.1",
    "GET /admin/v2/tenants?token={0} HTTP/1.1",
    "GET /admin/v2/nosuch?token={0} HTTP/1.1",
    "GET /admin/v2/tenants?token={0} HTTP/7.1",
    "G@T /admin/v2/tenants?token={0} HTTP/1.1",
    "GET http://[{0}/ HTTP/1.1",
    "PATCH /admin/v2/tenants?token={0} HTTP/1.1",
    "GET /lookup/v2/topic/persistent/public/default/t?token={0}",
)
BODIES = ('{{"token":"{0}"}}', '"{0}', "{0}", '{{"allowedClusters":["standalone"],"{0}":{0}}}')


def requests(secret: str) -> list[bytes]:
    made = [f"GET /admin/v2/tenants HTTP/1.1\r\nHost: x\r\n{place.format(secret)}\r\n\r\n" for place in PLACES]
    made += [f"{line.format(secret)}\r\nHost: x\r\n\r\n" for line in LINES if not line.startswith("GET {0}")]
    made += [f"GET /admin/v2/tenants HTTP/1.1\r\nAuthorization: Bearer {secret * 900}\r\n\r\n"]
    for text in BODIES:
        body = text.format(secret)
        head = "PUT /admin/v2/tenants/x HTTP/1.1\r\nHost: x\r\n"
        made += [f"{head}Content-Length: {len(body.encode('latin-1'))}\r\n\r\n{body}"]
        made += [f"{head}Transfer-Encoding: chunked\r\n\r\n{body}\r\n", f"{head}Content-Length: 2\r\n\r\n{body}"]
        made += [f"{head}Content-Encoding: gzip\r\nContent-Length: {len(body.encode('latin-1'))}\r\n\r\n{body}"]
    return [each.encode("latin-1") for each in made]


def frames(secret: str) -> list[bytes]:
    """Puts the secret into CONNECT as credentials of every kind, and into an AUTH_RESPONSE after a valid CONNECT; each
    frame comes whole, damaged and cut short."""
    data = secret.encode("latin-1")
    made = []
    for method in ("token", "basic", "tls", "nosuch", ""):
        made.append((b"", connect(method, data)))
        made.append((b"", connect(method, data, original_principal="x", original_auth_data=MARK)))
        response = {"response": {"auth_method_name": method, "auth_data": data}}
        sound = connect("token", token("admin").encode())
        made.append((sound, simple_frame(command("AUTH_RESPONSE", "authResponse", client_version="x", **response))))
    broken = [(before, each) for before, frame in made for each in (frame[:-3] + b"\xff" * 3, frame[:-3])]
    broken += [(before, frame[:8] + b"\xff" + frame[9:]) for before, frame in made]
    return [before + frame for before, frame in made + broken]


def connect(method: str, data: bytes, **others: str) -> bytes:
    fields = {"client_version": "x", "protocol_version": 20, "auth_method_name": method, "auth_data": data, **others}
    return simple_frame(command("CONNECT", "connect", **fields))


async def ask(port: int, sent: bytes) -> None:
    """Sends the bytes and nothing more: the server answers, closes, or notices that the client has gone."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(sent)
        await writer.drain()
        async with asyncio.timeout(0.05):
            await reader.read()
    except (TimeoutError, ConnectionError):
        pass
    finally:
        writer.close()


async def test_no_credential_is_logged_whatever_is_wrong_with_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    passwords = tmp_path / "htpasswd"
    passwords.write_text(f"dave:{bcrypt.hashpw(b'right', bcrypt.gensalt(4)).decode()}\n")
    settings = {
        "authenticationEnabled": "true",
        "authorizationEnabled": "true",
        "authenticationProviders": f"{PACKAGE}Token,{PACKAGE}Basic",
        "superUserRoles": "admin",
        "tokenSecretKey": f"data:,{KEY}",
        "basicAuthConf": str(passwords),
        "webServiceRequestLogEnabled": "true",
    }
    caplog.set_level(logging.DEBUG)
    async with running(tmp_path / "data", **settings) as web:
        web_port = int(web.server.web_url.rpartition(":")[2])
        broker_port = int(web.server.broker_url.rpartition(":")[2])
        http = [sent for secret in (*TOKENS, basic("dave", MARK)) for sent in requests(secret)]
        wire = [sent for secret in (*TOKENS, f"dave:{MARK}") for sent in frames(secret)]
        waiting = [ask(web_port, sent) for sent in http] + [ask(broker_port, sent) for sent in wire]
        for index in range(0, len(waiting), 50):
            await asyncio.gather(*waiting[index : index + 50])
        good = {"Authorization": f"Bearer {token('admin')}"}
        async with web.session.get(f"{web.server.web_url}/admin/v2/tenants?token={MARK}", headers=good) as answer:
            assert answer.status == 200
    lines = [record.getMessage() + (record.exc_text or "") for record in caplog.records]
    assert len(lines) > len(http)
    shown = [line for line in lines for secret in SECRETS if secret in line]
    assert shown == []
    assert [line for line in lines if 'role admin "GET /admin/v2/tenants" 200' in line]
