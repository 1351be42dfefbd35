"""The pytest plugin: fixtures for a server, its URLs, and a namespace for each test.

pytest imports this module in every project that has Magnetar installed, so it imports the server only in the fixtures.
"""

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from magnetar.testing.server_process import Server

LOG_LINES = "200"
SERVER = pytest.StashKey["Server"]()
"""The session's server, in the stash of the configuration."""
LOG_BEGIN = pytest.StashKey[int]()
"""Where the server's log ended when a test began, in the stash of the test."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("pulsar", "Pulsar server of Magnetar")
    group.addoption(
        "--pulsar-set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a key of broker.conf for the server; outranks pulsar_settings",
    )
    group.addoption(
        "--pulsar-log-level", metavar="LEVEL", help="level of the server's log: DEBUG, INFO, WARNING, ERROR"
    )
    group.addoption("--pulsar-url", metavar="URL", help="use a server that runs already, with --pulsar-admin-url")
    group.addoption("--pulsar-admin-url", metavar="URL", help="the REST interface of that server")
    parser.addini("pulsar_settings", "keys of broker.conf for the server: a line KEY=VALUE for each", type="linelist")
    parser.addini("pulsar_log_level", "level of the server's log", default="INFO")
    parser.addini("pulsar_log_lines", "lines of the server's log in the report of a failed test", default=LOG_LINES)


def pytest_configure(config: pytest.Config) -> None:
    if bool(config.getoption("--pulsar-url")) != bool(config.getoption("--pulsar-admin-url")):
        raise pytest.UsageError("--pulsar-url and --pulsar-admin-url need each other")
    _settings(config)


def _settings(config: pytest.Config) -> dict[str, str]:
    """Returns the server's settings from the ini file and the command line. Raises UsageError."""
    found: dict[str, str] = {}
    for text in (*config.getini("pulsar_settings"), *config.getoption("--pulsar-set")):
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise pytest.UsageError(f"pulsar settings: '{text}' is not KEY=VALUE")
        found[key.strip()] = value.strip()
    return found


@pytest.fixture(scope="session")
def pulsar_server(pytestconfig: pytest.Config) -> "Iterator[Server]":
    """A server for the whole session; each worker of pytest-xdist has one of its own."""
    if pytestconfig.getoption("--pulsar-url"):
        pytest.fail("the fixture pulsar_server is not there with --pulsar-url: the server is not ours", pytrace=False)
    from magnetar.testing.server_process import Server

    level = pytestconfig.getoption("--pulsar-log-level") or pytestconfig.getini("pulsar_log_level")
    with Server(_settings(pytestconfig), log_level=level) as server:
        for warning in server.setting_warnings():
            warnings.warn(pytest.PytestWarning(f"pulsar_server: {warning}"), stacklevel=1)
        pytestconfig.stash[SERVER] = server
        yield server


@pytest.fixture(scope="session")
def pulsar_url(request: pytest.FixtureRequest) -> str:
    """The URL for Pulsar's clients."""
    given: str | None = request.config.getoption("--pulsar-url")
    return given or str(request.getfixturevalue("pulsar_server").service_url)


@pytest.fixture(scope="session")
def pulsar_admin_url(request: pytest.FixtureRequest) -> str:
    """The URL of the REST interface."""
    given: str | None = request.config.getoption("--pulsar-admin-url")
    return given or str(request.getfixturevalue("pulsar_server").admin_url)


@pytest.fixture
def pulsar_namespace(request: pytest.FixtureRequest, pulsar_admin_url: str) -> Iterator[str]:
    """ "tenant/namespace" for one test, deleted after it with all its topics. The test's faults end with it, too."""
    from magnetar.testing.admin_calls import AdminCalls

    server = request.config.stash.get(SERVER, None)
    if server is not None and not server.is_running:
        server.start()  # A test before this one has killed it.
    with AdminCalls(pulsar_admin_url).namespace() as name:
        yield name
        if server is not None:
            server.end_faults()


def pytest_runtest_setup(item: pytest.Item) -> None:
    server = item.config.stash.get(SERVER, None)
    item.stash[LOG_BEGIN] = 0 if server is None else server.log_size()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    """Puts what the server logged during a test into the report of its failure."""
    report: pytest.TestReport = yield
    server = item.config.stash.get(SERVER, None)
    if report.failed and server is not None and _uses_server(item):
        lines = server.log_text(item.stash.get(LOG_BEGIN, 0)).splitlines()
        shown = int(item.config.getini("pulsar_log_lines"))
        report.sections.append(("log of pulsar_server", "\n".join(lines[-shown:] if shown else [])))
    return report


def _uses_server(item: pytest.Item) -> bool:
    names = getattr(item, "fixturenames", ())
    return any(name in names for name in ("pulsar_server", "pulsar_url", "pulsar_admin_url", "pulsar_namespace"))
