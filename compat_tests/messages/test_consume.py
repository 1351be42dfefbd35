"""`magnetar consume`: what it prints is acknowledged, what it did not print comes again; and how commands end."""

import json
import os
import re
import select
import signal
import subprocess

import pulsar
import pytest

from compat_tests.harness import Server, wait_until
from compat_tests.messages.commands import TIMEOUT_SECONDS, done, joined, lines, refused, run, start
from compat_tests.python.rest import Admin
from compat_tests.python.support import send_all

COUNT = 900
LARGE = [f"{number} ".encode().ljust(1000, b".") for number in range(COUNT)]
"""More than a pipe holds."""


def backlog(server: Server, topic: str) -> int:
    stats = Admin(server).get(f"{topic.replace('://', '/')}/stats?getPreciseBacklog=true")
    return int(stats["subscriptions"]["s"]["msgBacklog"])


def next_lines(process: "subprocess.Popen[bytes]", count: int) -> list[bytes]:
    assert process.stdout is not None
    return [process.stdout.readline().rstrip(b"\n") for _ in range(count)]


def ended(process: "subprocess.Popen[bytes]", number: int) -> int:
    """Sends the signal and returns the exit code."""
    process.send_signal(number)
    return process.wait(TIMEOUT_SECONDS)


@pytest.mark.parametrize("kind", ["Exclusive", "Shared", "Failover", "Key_Shared"])
def test_a_count_takes_the_first_messages_and_leaves_the_others(
    server: Server, topic: str, client: pulsar.Client, kind: str
) -> None:
    client.subscribe(topic, "s", initial_position=pulsar.InitialPosition.Earliest).close()
    send_all(client.create_producer(topic, batching_enabled=True), lines(100))
    for first, count in ((0, 30), (30, 30), (60, 40)):
        output = done(server, "consume", topic, "-s", "s", "-t", kind, "-n", str(count))
        assert output == joined(lines(100)[first : first + count])
    assert done(server, "consume", topic, "-s", "s", "-t", kind, "--timeout", "2s") == b""


def test_fewer_messages_than_asked_for_are_exit_code_1(server: Server, topic: str) -> None:
    done(server, "produce", topic, "-m", "only")
    result = run(server, "consume", topic, "-s", "s", "-p", "earliest", "-n", "2", "--timeout", "500ms")
    assert (result.returncode, result.stdout) == (1, b"only\n")
    assert b"1 of 2 messages came, then 0.5 s passed without a message" in result.stderr


def test_json_and_formats(server: Server, topic: str) -> None:
    done(server, "produce", topic, "-K", ":", "-p", "a=1", input=b"k:v\n")
    (line,) = done(server, "consume", topic, "-s", "s", "-p", "earliest", "-n", "1", "-o", "json").splitlines()
    message = json.loads(line)
    assert (message["topic"], message["key"], message["value"]) == (topic, "k", "v")
    assert (message["properties"], message["redeliveryCount"]) == ({"a": "1"}, 0)
    output = done(server, "consume", topic, "-s", "s2", "-p", "earliest", "-n", "1", "-F", "%i %k\\t%v{hex}")
    assert re.fullmatch(rb"\d+:\d+:-1:0 k\t76", output)


def test_several_topics_partitions_and_patterns(server: Server, topic: str) -> None:
    Admin(server).put(f"{topic.replace('://', '/')}-a/partitions", 3)
    for name in ("a", "b"):
        done(server, "produce", f"{topic}-{name}", "--no-batching", input=joined(lines(10, name)))
    several = done(server, "consume", f"{topic}-a", f"{topic}-b", "-s", "s", "-p", "earliest", "-n", "20")
    assert sorted(several.splitlines()) == sorted(lines(10, "a") + lines(10, "b"))
    options = ("--pattern", "-s", "p", "-p", "earliest", "-n", "20")
    assert sorted(done(server, "consume", f"{topic}-.*", *options).splitlines()) == sorted(several.splitlines())


def test_a_pattern_may_be_for_topics_that_are_not_persistent(server: Server, topic: str, client: pulsar.Client) -> None:
    volatile = topic.replace("persistent://", "non-persistent://")
    producer = client.create_producer(volatile)
    with start(server, "consume", f"{volatile}.*", "--pattern", "-s", "s", "-n", "1") as process:

        def has_ended() -> bool:
            producer.send(b"x")
            return process.poll() is not None

        wait_until(has_ended, "the consumer got a message")
        assert process.stdout is not None
        assert (process.returncode, process.stdout.read()) == (0, b"x\n")


def test_what_a_killed_consumer_did_not_acknowledge_comes_again(
    server: Server, topic: str, client: pulsar.Client
) -> None:
    """The consumer is killed inside of a write: a part of a group is written, and none of it is acknowledged."""
    send_all(client.create_producer(topic), LARGE)
    with start(server, "consume", topic, "-s", "s", "-p", "earliest") as process:
        assert process.stdout is not None
        select.select([process.stdout], [], [], TIMEOUT_SECONDS)
        process.kill()
        written = process.stdout.read().split(b"\n")[:-1]
    assert 0 < len(written) < COUNT
    assert written == LARGE[: len(written)]
    assert done(server, "consume", topic, "-s", "s", "-n", str(COUNT)) == joined(LARGE)


def test_nothing_is_lost_when_consumers_are_killed_at_any_point(
    server: Server, topic: str, client: pulsar.Client
) -> None:
    send_all(client.create_producer(topic), LARGE)
    seen: set[bytes] = set()
    for rounds in range(1, 6):
        with start(server, "consume", topic, "-s", "s", "-p", "earliest") as process:
            seen.update(next_lines(process, 20 * rounds))
            process.kill()
    seen.update(done(server, "consume", topic, "-s", "s", "--timeout", "2s").splitlines())
    assert seen == set(LARGE)


def test_a_reader_that_goes_away_ends_the_consumer_and_the_rest_comes_again(
    server: Server, topic: str, client: pulsar.Client
) -> None:
    send_all(client.create_producer(topic), LARGE)
    with start(server, "consume", topic, "-s", "s", "-p", "earliest") as process:
        first = next_lines(process, 2)
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.wait(TIMEOUT_SECONDS) == 0
        assert process.stderr.read() == b""
    rest = done(server, "consume", topic, "-s", "s", "--timeout", "2s").splitlines()
    assert set(first) | set(rest) == set(LARGE)


@pytest.mark.parametrize("command", [("consume", "-s", "s"), ("read", "-f")])
def test_a_reader_that_goes_away_is_noticed_without_a_message(
    server: Server, topic: str, command: tuple[str, ...]
) -> None:
    done(server, "produce", topic, "-m", "x")
    with start(server, *command, topic) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(TIMEOUT_SECONDS) == 0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_consumer_and_what_it_printed_does_not_come_again(
    server: Server, topic: str, number: int, code: int
) -> None:
    done(server, "produce", topic, input=joined(lines(10)))
    with start(server, "consume", topic, "-s", "s", "-p", "earliest") as process:
        assert next_lines(process, 10) == lines(10)
        assert ended(process, number) == code
        assert process.stdout is not None
        assert process.stderr is not None
        assert (process.stdout.read(), process.stderr.read()) == (b"", b"")
    wait_until(lambda: backlog(server, topic) == 0, "everything that was printed is acknowledged")


def test_a_second_signal_ends_a_consumer_that_hangs_in_a_write(
    server: Server, topic: str, client: pulsar.Client
) -> None:
    send_all(client.create_producer(topic), LARGE)
    with start(server, "consume", topic, "-s", "s", "-p", "earliest") as process:
        assert process.stdout is not None
        select.select([process.stdout], [], [], TIMEOUT_SECONDS)
        process.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.3)
        assert ended(process, signal.SIGINT) == 130


def test_reading_on_shows_new_messages_until_a_signal(server: Server, topic: str) -> None:
    Admin(server).put(f"{topic.replace('://', '/')}/partitions", 2)
    done(server, "produce", topic, "-m", "old", "-n", "4", "--no-batching")
    with start(server, "read", topic, "--from", "earliest", "-f") as process:
        assert next_lines(process, 4) == [b"old"] * 4
        done(server, "produce", topic, "-m", "new", "-n", "4", "--no-batching")
        assert next_lines(process, 4) == [b"new"] * 4
        assert ended(process, signal.SIGINT) == 130
    assert done(server, "read", topic, "-f", "--from", "earliest", "-n", "8").split().count(b"new") == 4
    assert done(server, "read", topic, "-f", "--from", "earliest", "--to", "now").split().count(b"new") == 4


def test_a_full_disk_is_told(server: Server, topic: str) -> None:
    done(server, "produce", topic, "-m", "x")
    with (
        open("/dev/full", "wb") as full,
        start(server, "consume", topic, "-s", "s", "-p", "earliest", stdout=full) as process,
    ):
        _, errors = process.communicate(timeout=TIMEOUT_SECONDS)
    assert (process.returncode, errors) == (1, b"magnetar consume: standard output: No space left on device\n")
    assert backlog(server, topic) == 1


def test_a_busy_subscription_is_told(server: Server, topic: str, client: pulsar.Client) -> None:
    client.subscribe(topic, "s")
    assert "has a consumer already" in refused(run(server, "consume", topic, "-s", "s"))


def test_terminals_get_no_control_characters(server: Server, topic: str) -> None:
    done(server, "produce", topic, "-m", "\x1b[2J\ttext")
    ours, theirs = os.openpty()
    with start(server, "read", topic, stdout=theirs) as process:
        assert process.wait(TIMEOUT_SECONDS) == 0
    os.close(theirs)
    assert os.read(ours, 1000).replace(b"\r\n", b"\n") == b"\\x1b[2J\ttext\n"
    os.close(ours)


def test_progress_is_shown_on_a_terminal_and_only_there(server: Server, topic: str) -> None:
    ours, theirs = os.openpty()
    with start(server, "produce", topic, "-m", "x", "-n", "3", stderr=theirs) as process:
        assert process.wait(TIMEOUT_SECONDS) == 0
    os.close(theirs)
    assert b"3 messages acknowledged" in os.read(ours, 1000)
    os.close(ours)
