"""A server has the parts of aiohttp that serve requests, until something asks for its client or its framework."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

ALONE = """
import sys
from magnetar.server.web.aiohttp_import import import_aiohttp_web

import_aiohttp_web()
from magnetar.server.web import http_app, responses
from magnetar.server.websocket import upgrade

assert "aiohttp.web_protocol" in sys.modules
assert "aiohttp.client" not in sys.modules
assert "aiohttp.connector" not in sys.modules
assert "aiohttp.web_app" not in sys.modules
assert "importlib.metadata" not in sys.modules
"""

THEN_WHOLE = f"""{ALONE}
from aiohttp.web_response import Response
import aiohttp
from importlib.metadata import version
from aiohttp import ClientSession, web

assert web.Response is Response
assert web.Application
assert web.Response is Response
assert aiohttp.ClientSession is ClientSession
assert aiohttp.__version__ == version("aiohttp")
assert aiohttp.http.SERVER_SOFTWARE.endswith(version("aiohttp"))
try:
    aiohttp.no_such_name
except AttributeError as error:
    assert "no_such_name" in str(error)
else:
    raise AssertionError("there is such a name")
"""

WHOLE_BEFORE = """
import aiohttp
from aiohttp.web_response import Response
from magnetar.server.web.aiohttp_import import import_aiohttp_web

session = aiohttp.ClientSession
import_aiohttp_web()
from aiohttp import ClientSession, web

assert ClientSession is session
assert web.Response is Response
"""

OF_ANOTHER_VERSION = """
import sys

sys.modules["aiohttp.web_server"] = None  # an import of this module fails
from magnetar.server.web.aiohttp_import import import_aiohttp_web

import_aiohttp_web()
import aiohttp

assert aiohttp.ClientSession
assert aiohttp.web.Response
"""


@pytest.mark.process
@pytest.mark.parametrize(
    "code",
    [ALONE, THEN_WHOLE, WHOLE_BEFORE, OF_ANOTHER_VERSION],
    ids=["alone", "then the whole", "the whole before", "a version that needs the whole"],
)
def test_the_server_is_imported_without_the_client_and_the_client_can_follow(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=120)
