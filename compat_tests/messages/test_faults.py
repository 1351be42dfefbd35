"""What the commands say and return when something is wrong: the options, the topic, the login, the server."""

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pulsar
import pytest

from compat_tests.conftest import ClientFactory
from compat_tests.harness import Server, free_port, wait_until
from compat_tests.messages.commands import (
    TIMEOUT_SECONDS,
    done,
    environment,
    joined,
    lines,
    refused,
    run,
    start,
    without_client,
)
from compat_tests.products import interpreter
from compat_tests.python.rest import Admin
from compat_tests.security_site import Site, running_site

COMMANDS = {"produce": ("-m", "x"), "consume": ("-s", "s", "-n", "1"), "read": ()}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with running_site(tmp_path_factory.mktemp("security")) as made:
        yield made


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("produce",), "TOPIC"),
        (("produce", "t", "-r", "fast"), "'fast' is no number"),
        (("produce", "t", "-F", "%k"), "must have %v"),
        (("produce", "t", "-K", ":", "-F", "%v"), "not allowed with"),
        (("produce", "t", "-D", ""), "at least one byte"),
        (("produce", "t", "-p", "novalue"), "'novalue' is not KEY=VALUE"),
        (("produce", "t", "--deliver-at", "earliest"), "'earliest' is no time"),
        (("produce", "t", "--chunking", "--no-batching"), "not allowed with"),
        (("produce", "t", "--mesage", "x"), "unrecognized arguments: --mesage"),
        (("produce", "t", "--schema-type", "AVRO"), "--schema-type AVRO needs --schema FILE"),
        (("consume", "t"), "-s/--subscription"),
        (("consume", "t", "-s", "s", "-t", "shared"), "invalid choice: 'shared'"),
        (("consume", "t", "-s", "s", "-n", "0"), "at least 1"),
        (("consume", "t", "-s", "s", "-F", "%q"), "'%q' is no field"),
        (("consume", "a", "b", "-s", "s", "--pattern"), "--pattern takes one TOPIC"),
        (("read", "t", "--from", "sometime"), "'sometime' is no place"),
        (("read", "t", "--from", "latest"), "without -f would read nothing"),
        (("read", "t", "--to", "earliest"), "would read nothing"),
        (("bench", "both", "--size", "4"), "16 bytes at least"),
        (("bench", "both", "t", "--remove"), "leave TOPIC out"),
        (("bench", "sub"), "needs a TOPIC"),
        (("bench", "all"), "invalid choice: 'all'"),
    ],
)
def test_wrong_options_are_exit_code_2_before_anything_connects(words: tuple[str, ...], complaint: str) -> None:
    result = run(None, *words, "--service-url", "pulsar://127.0.0.1:1")
    assert (result.returncode, result.stdout) == (2, b"")
    assert complaint in result.stderr.decode()


@pytest.mark.parametrize("command", COMMANDS)
def test_names_that_no_topic_has_are_refused_before_anything_connects(command: str) -> None:
    url = ("--service-url", "pulsar://127.0.0.1:1")
    assert "'a//b' is no name of a topic" in refused(run(None, command, "a//b", *COMMANDS[command], *url))


@pytest.mark.parametrize("command", COMMANDS)
def test_a_namespace_that_is_not_there_is_told(server: Server, command: str) -> None:
    line = refused(run(server, command, "public/absent/t", *COMMANDS[command]))
    assert line.startswith(f"magnetar {command}: persistent://public/absent/t: ")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_server_that_is_away_is_told_at_once(command: str) -> None:
    url = f"pulsar://127.0.0.1:{free_port()}"
    line = refused(run(None, command, "t", *COMMANDS[command], "--service-url", url))
    assert line == f"magnetar {command}: cannot connect to {url}: Connection refused"


def test_a_service_url_that_is_none_is_told() -> None:
    line = refused(run(None, "read", "t", "--service-url", "localhost:6650"))
    assert "'localhost:6650' is no service URL such as pulsar://" in line


@pytest.mark.parametrize("command", [*COMMANDS, "bench"])
def test_a_client_that_is_not_installed_is_told_before_anything_connects(command: str, tmp_path: Path) -> None:
    words = ("bench", "both") if command == "bench" else (command, "t", *COMMANDS[command])
    line = refused(run(None, *words, more=without_client(tmp_path)))
    assert line == (f"magnetar {command}: the client for messages is not installed: pip install 'magnetar[client]'")


class TestLogin:
    @pytest.mark.parametrize("command", COMMANDS)
    def test_without_rights(self, site: Site, command: str) -> None:
        role = "bob" if command == "produce" else "alice"
        line = refused(
            run(site.server, command, site.topic("t"), *COMMANDS[command], more={"MAGNETAR_TOKEN": site.token(role)})
        )
        assert "not permitted" in line or "refused the login" in line
        assert site.token(role)[:40] not in line

    @pytest.mark.parametrize("command", COMMANDS)
    def test_with_a_token_of_a_foreign_key(self, site: Site, command: str) -> None:
        more = {"MAGNETAR_TOKEN": site.token("alice")[:-8] + "AAAAAAAA"}
        line = refused(run(site.server, command, site.topic("t"), *COMMANDS[command], more=more))
        assert "refused the login" in line

    def test_with_rights_over_tls(self, site: Site, tmp_path: Path) -> None:
        token = tmp_path / "token"
        token.write_text(site.token("dave"))
        url = site.server.address.broker_url_tls
        options = ("--service-url", url, "--token-file", str(token), "--tls-trust-cert-path", str(site.authority.path))
        done(site.server, "produce", site.topic("tls"), "-m", "secret", *options)
        assert done(site.server, "read", site.topic("tls"), *options) == b"secret\n"

    def test_with_a_certificate_that_is_not_trusted(self, site: Site) -> None:
        result = run(site.server, "read", site.topic("t"), "--service-url", site.server.address.broker_url_tls)
        assert result.returncode == 1
        assert result.stderr.count(b"\n") == 1


def test_lines_that_are_no_message_end_the_command_after_the_receipts_of_the_others(server: Server, topic: str) -> None:
    result = run(server, "produce", topic, "-F", "%k %v", input=b"k first\nk second\nthird\nk fourth\n")
    assert "line 3: it has no b' ' behind %k; 2 of 2 messages sent were acknowledged" in refused(result)
    assert done(server, "read", topic) == b"first\nsecond\n"


@pytest.mark.parametrize(("command", "stream"), [("produce", "input"), ("consume", "output"), ("read", "output")])
def test_a_closed_standard_stream_is_told(server: Server, topic: str, command: str, stream: str) -> None:
    words = [*interpreter(), "-m", "magnetar", command, topic, *(("-s", "s") if command == "consume" else ())]
    redirection = "<&-" if stream == "input" else ">&-"
    result = subprocess.run(
        ["bash", "-c", f'"$@" {redirection}', "bash", *words], env=environment(server), capture_output=True, text=True
    )
    assert (result.returncode, result.stderr) == (1, f"magnetar {command}: standard {stream} is closed\n")


def test_a_line_that_is_too_long_is_refused(server: Server, topic: str) -> None:
    result = run(server, "produce", topic, input=b"short\n" + b"x" * (6 << 20) + b"\n")
    assert "line 2 has more than 5242880 bytes" in refused(result)


def test_produce_fails_when_a_receipt_does_not_come(own_server: Server, topic: str) -> None:
    with start(own_server, "produce", topic, "--send-timeout", "1s", "--print-ids") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"stored\n")
        process.stdin.flush()
        assert process.stdout.readline()
        own_server.kill()
        output, errors = process.communicate(b"lost\n", TIMEOUT_SECONDS)
    assert (process.returncode, output) == (1, b"")
    assert b"line 2 was not acknowledged: no answer in time" in errors
    assert b"1 of 2 messages sent were acknowledged" in errors


def test_produce_ends_tidily_when_it_is_interrupted(server: Server, topic: str) -> None:
    with start(server, "produce", topic, "--print-ids") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"one\n")
        process.stdin.flush()
        assert process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=TIMEOUT_SECONDS)
    assert process.returncode == 130
    assert errors == b"magnetar produce: interrupted; 1 of 1 message sent was acknowledged\n"


def test_commands_go_on_when_the_server_restarts(own_server: Server, topic: str, make_client: ClientFactory) -> None:
    """Lines are produced at a steady rate while a consumer and a reader follow; the server is killed in between."""
    told = lines(400)
    client = make_client(own_server.broker_url)
    for name in ("s", "keeps the messages that s has consumed"):
        client.subscribe(topic, name, initial_position=pulsar.InitialPosition.Earliest).close()
    with (
        start(own_server, "consume", topic, "-s", "s", "-n", "400") as consumer,
        start(own_server, "read", topic, "--from", "earliest", "-f", "-n", "400") as reader,
        start(own_server, "produce", topic, "-r", "100", "--no-batching") as producer,
    ):
        assert producer.stdin is not None
        assert consumer.stdout is not None
        producer.stdin.write(joined(told))
        producer.stdin.close()
        consumed = [consumer.stdout.readline() for _ in range(50)]
        own_server.kill()
        own_server.start()
        assert producer.wait(TIMEOUT_SECONDS) == 0
        consumed += consumer.communicate(timeout=TIMEOUT_SECONDS)[0].splitlines(keepends=True)
        read = reader.communicate(timeout=TIMEOUT_SECONDS)[0]
    assert (consumer.returncode, reader.returncode) == (0, 0)
    stored = done(own_server, "read", topic).splitlines()
    # A message whose receipt was lost is sent again, so that it may be there twice; none is missing.
    assert list(dict.fromkeys(stored)) == told
    assert set(b"".join(consumed).splitlines()) <= set(told)
    assert read.splitlines() == stored[:400]


def has_consumer(server: Server, topic: str) -> bool:
    admin = Admin(server)
    if topic not in admin.get("persistent/public/default"):
        return False
    subscriptions = admin.get(f"{topic.replace('://', '/')}/stats")["subscriptions"]
    return bool(subscriptions.get("s", {}).get("consumers"))


def test_a_consumer_says_that_the_server_is_away_and_back(own_server: Server, topic: str) -> None:
    with start(own_server, "consume", topic, "-s", "s", "-n", "1") as process:
        assert process.stderr is not None
        wait_until(lambda: has_consumer(own_server, topic), "the consumer is there")
        own_server.kill()
        assert process.stderr.readline() == b"magnetar consume: the server is away; waiting for it\n"
        own_server.start()
        assert process.stderr.readline() == b"magnetar consume: connected again\n"
        done(own_server, "produce", topic, "-m", "x")
        assert process.communicate(timeout=TIMEOUT_SECONDS)[0] == b"x\n"
    assert process.returncode == 0
