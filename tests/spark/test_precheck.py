"""What a job says before it starts Java, about wrong options and about a service that does not answer or refuses it."""

import json
import re
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pulsar
import pytest

from compat_tests.harness import Server
from compat_tests.security_site import Site, running_site
from magnetar.spark.jobs import job_session, precheck
from magnetar.spark.jobs.error_sentences import in_job_options
from magnetar.spark.jobs.job_outcome import INTERRUPTED, JobOutcome, finish
from magnetar.spark.jobs.lake.lake_ingest import main
from magnetar.spark.jobs.published_connector import check_versions, connector_options
from magnetar.spark.jobs.snapshot import snapshot_table
from magnetar.spark.jobs.window import window_agg
from magnetar.spark.source.checkpoint import Checkpoint
from magnetar.spark.source.client.admin_client import AdminClient, topic_path
from magnetar.spark.source.client.broker_connection import ClientLogin
from magnetar.spark.source.client.pulsar_client import topic_pattern
from magnetar.spark.source.options import BadOption, read_options
from pulsar_proto.names import TopicName

TOPIC = "persistent://public/default/t"


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes each of these tests fail if Spark is started."""
    monkeypatch.setattr(job_session, "SparkSession", None)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with running_site(tmp_path_factory.mktemp("precheck")) as made:
        yield made


@pytest.fixture(scope="module")
def topic_of_bytes(site: Site) -> str:
    """Makes a topic without a schema, whose only value column is `value`."""
    topic: str = site.topic("bytes")
    AdminClient(site.server.web_url, ClientLogin(token=site.token("admin"))).call("PUT", topic_path(topic))
    return topic


def sentence(capsys: pytest.CaptureFixture[str], service: str, *more: str, topic: str = "t") -> str:
    """Runs a job that has to fail with exit code 1, and returns the last line that it says."""
    place = ["--service-url", service, "--topic", topic, "--path", "p", "--checkpoint", "c"]
    assert main([*place, *more]) == 1
    return capsys.readouterr().err.splitlines()[-1].removeprefix("magnetar spark lake_ingest: ")


def test_a_service_url_that_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    said = sentence(capsys, "localhost:6650")
    assert said == "service.url 'localhost:6650': expected pulsar://host:port, pulsar+ssl://… or http(s)://…"


def test_a_service_that_does_not_answer_is_waited_for_and_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(precheck, "PATIENCE_SECONDS", 1.0)
    monkeypatch.setattr(precheck, "RETRY_SECONDS", 0.1)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"pulsar://127.0.0.1:{free.getsockname()[1]}"
        said = sentence(capsys, url)
    assert re.fullmatch(rf"cannot connect to {url}: .*refused \(tried for 1 s\)", said)


@pytest.mark.process
def test_a_missing_or_wrong_token_and_a_topic_that_may_not_be_read(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    url, admin = site.server.broker_url, ["--admin-url", site.server.web_url]
    refused = ": Client is not authorized to Get Partition Metadata"
    assert sentence(capsys, url, *admin) == f"t{refused}"
    assert sentence(capsys, url, *admin, "--auth-params", "token:nonsense") == f"{url}: Failed to authenticate"
    mallory = ["--auth-params", f"token:{site.token('mallory')}"]
    assert sentence(capsys, url, *admin, *mallory, topic=site.topic("o")) == f"{site.topic('o')}{refused}"


@pytest.mark.process
def test_a_topic_that_is_not_there_and_a_wrong_admin_url(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    root = ["--auth-params", f"token:{site.token('admin')}"]
    said = sentence(capsys, site.server.broker_url, *root, topic=site.topic("nowhere"))
    assert said == f"topic {site.topic('nowhere')} does not exist"
    said = sentence(capsys, site.server.broker_url, *root, "--admin-url", "127.0.0.1:8080")
    assert said == "admin.url '127.0.0.1:8080': expected http://host:port or https://host:port"


LIMITS_NEED = "--max-messages and --max-bytes need --trigger with an interval, or Spark 4.2 and newer"


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        (["--trigger", "soon"], "--trigger soon: expected available-now, or an interval as '10 seconds'"),
        (["--source", "connector", "--max-messages", "10"], LIMITS_NEED),
    ],
)
def test_limits_and_intervals_that_no_query_takes(
    more: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sentence(capsys, "pulsar://127.0.0.1:1", *more) == complaint


@pytest.mark.process
def test_a_start_that_is_none_is_named_by_the_jobs_option(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    root = ["--auth-params", f"token:{site.token('admin')}"]
    said = sentence(capsys, site.server.broker_url, *root, "--starting", "early")
    assert said == "--starting: 'early': expected earliest, latest or a JSON map of partition to message id"


@pytest.mark.process
def test_limits_and_places_that_make_no_sense_are_told_before_java_starts(
    site: Site, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    token, url, topic = f"token:{site.token('admin')}", site.server.broker_url, site.topic("starts")
    login = ClientLogin(token=token.removeprefix("token:"))
    AdminClient(site.server.web_url, login).call("PUT", topic_path(topic))
    root = ["--auth-params", token, "--checkpoint", str(tmp_path / "none")]
    endless = ["--trigger", "10 seconds"]
    said = sentence(capsys, url, *root, *endless, "--max-messages", "-1", topic=topic)
    assert said == "--max-messages: '-1' is not a whole number of at least 0"
    place = json.dumps({TOPIC: "5:3"})
    said = sentence(capsys, url, *root, "--starting", place, topic=topic)
    assert said == f"--starting: {TOPIC} is not read; what is read are {topic}"
    resumed = checkpoint_of(tmp_path / "resumed", topic)
    given = {"service.url": url, "topic": topic, "startingOffsets": place}
    given["pulsar.client.authParams"] = token
    precheck.check_topics(given, begins=not resumed.planned())


@pytest.mark.process
def test_a_run_to_which_nothing_came_ends_without_java(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """SparkSession is None here, and to ask it for a session is an AttributeError."""
    with Server(tmp_path / "server", settings={"brokerDeleteInactiveTopicsEnabled": "false"}) as server:
        client = pulsar.Client(
            server.broker_url, logger=pulsar.FileLogger(pulsar.LoggerLevel.Warn, str(tmp_path / "l"))
        )
        producer = client.create_producer(TOPIC, batching_enabled=False)
        last = [producer.send(b"x") for _ in range(3)][-1]
        checkpoint = checkpoint_of(tmp_path / "checkpoint", TOPIC, bound=f"{last.ledger_id()}:{last.entry_id()}")
        place = [
            "--service-url",
            server.broker_url,
            "--topic",
            "t",
            "--path",
            "p",
            "--checkpoint",
            str(checkpoint.folder),
        ]
        with pytest.raises(AttributeError):  # the batch is not committed, so Spark is asked for a session
            main(place)
        (checkpoint.folder / "commits").mkdir()
        (checkpoint.folder / "commits" / "0").touch()
        assert main(place) == 0
        assert "lake_ingest: read 0, wrote 0" in capsys.readouterr().out
        with pytest.raises(AttributeError):
            main([*place, "--check", "table"])
        producer.send(b"y")
        with pytest.raises(AttributeError):
            main(place)
        client.close()


@pytest.mark.process
def test_a_column_that_the_topic_lacks_is_told_before_java_starts(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    root = ["--auth-params", f"token:{site.token('admin')}"]
    topic = site.topic("columns")
    login = ClientLogin(token=site.token("admin"))
    AdminClient(site.server.web_url, login).call("PUT", topic_path(topic))
    said = sentence(capsys, site.server.broker_url, *root, "--columns", "value,day,n", topic=topic)
    assert said == "--columns day, n: the topic has value"


@pytest.mark.process
@pytest.mark.parametrize(
    ("job", "more", "complaint"),
    [
        (
            window_agg.main,
            ["--window", "1 day", "--agg", "sum(rain)", "--out-path", "p"],
            "--agg: no column rain; there are value, __key, ",
        ),
        (snapshot_table.main, ["--path", "p", "--format", "debezium"], "--format debezium needs --json-schema: "),
        (
            window_agg.main,
            ["--window", "1 day", "--out-topic", "nobody/none/t"],
            "namespace nobody/none does not exist",
        ),
        (
            main,
            ["--path", "p", "--source", "connector"],
            "--source connector needs --admin-url: ",
        ),
    ],
)
def test_what_the_topic_or_the_target_lacks_is_told_before_java_starts(
    site: Site,
    topic_of_bytes: str,
    job: Callable[[list[str]], int],
    more: list[str],
    complaint: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    place = ["--service-url", site.server.broker_url, "--auth-params", f"token:{site.token('admin')}"]
    place += ["--topic", topic_of_bytes]
    assert job([*place, "--checkpoint", "c", *more]) == 1
    (said,) = capsys.readouterr().err.splitlines()
    assert said.split(": ", 1)[1].startswith(complaint)


def test_a_pattern_that_is_no_regular_expression_is_named() -> None:
    with pytest.raises(BadOption, match=r"option topicsPattern: 'ord\(': missing \)"):
        read_options({"service.url": "pulsar://127.0.0.1:1", "topicsPattern": "ord("}, streaming=True)
    assert in_job_options("option topicsPattern: 'ord('") == "--pattern: 'ord('"


def test_ctrl_c_before_the_query_begins_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def press(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(job_session, "check_service", press)
    assert sentence(capsys, "pulsar://127.0.0.1:1") == INTERRUPTED


def test_an_interrupted_run_does_not_say_that_a_check_failed(capsys: pytest.CaptureFixture[str]) -> None:
    assert finish(JobOutcome("replay", problems=[INTERRUPTED, "2 messages are missing"]), 0.0, "text") == 1
    assert capsys.readouterr().err.splitlines() == [INTERRUPTED, "check failed: 2 messages are missing"]


def test_details_of_topics_are_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    counted = {"t-0": {"entries": 1200, "bytes": 9}, "t-1": {"entries": 1, "bytes": 0}}
    details = {"range": {"t": "after 1:2 to 3:4"}, "counted": counted, "orphans": 0, "of no topic": {}}
    assert finish(JobOutcome("audit", details=details), 0.0, "text") == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "  range:",
        "    t: after 1:2 to 3:4",
        "  counted:",
        "    t-0: entries 1,200, bytes 9",
        "    t-1: entries 1, bytes 0",
        "  orphans: 0",
        "  of no topic: none",
    ]


def checkpoint_of(folder: Path, *topics: str, bound: str = "5:3") -> Checkpoint:
    """Leaves a checkpoint as Spark does after it planned a first batch."""
    (folder / "offsets").mkdir(parents=True)
    offsets = json.dumps(dict.fromkeys(topics, bound))
    (folder / "offsets" / "0").write_text(f"v1\n{{}}\n{offsets}")
    return Checkpoint(str(folder))


@pytest.mark.parametrize(
    "asked",
    [
        {"topic": "t"},
        {"topics": f"t, {TOPIC}2"},
        {"topic": f"{TOPIC}-partition-1"},
        {"topicsPattern": f"{TOPIC}.*"},
        {"topicsPattern": "t"},
    ],
)
def test_a_checkpoint_of_other_topics_is_refused(asked: dict[str, str], tmp_path: Path) -> None:
    given = {"service.url": "pulsar://127.0.0.1:1", **asked}
    precheck.check_checkpoint(given, Checkpoint(str(tmp_path / "none")), "lake_ingest", "c")
    precheck.check_checkpoint(given, checkpoint_of(tmp_path / "right", f"{TOPIC}-partition-1"), "lake_ingest", "c")
    wrong = checkpoint_of(tmp_path / "wrong", TOPIC, TOPIC.replace("/t", "/other"))
    with pytest.raises(
        BadOption, match=r"^checkpoint s3://c is of a query that reads persistent://public/default/other: give each"
    ):
        precheck.check_checkpoint(given, wrong, "lake_ingest", "s3://c")


def test_a_checkpoint_of_another_job_is_refused(tmp_path: Path) -> None:
    """The other job would begin behind what this one has read, and say that nothing came."""
    given = {"service.url": "pulsar://127.0.0.1:1", "topic": "t"}
    checkpoint = checkpoint_of(tmp_path / "c", TOPIC)
    checkpoint.begin("lake_ingest")
    precheck.check_checkpoint(given, checkpoint, "lake_ingest", "s3://c")
    with pytest.raises(BadOption, match=r"^checkpoint s3://c is of lake_ingest: give each job one of its own"):
        precheck.check_checkpoint(given, checkpoint, "snapshot_table", "s3://c")


def test_a_pattern_without_a_namespace_is_of_local_names() -> None:
    short, long = TopicName.parse("orders"), TopicName.parse("a/b/orders")
    assert [topic_pattern("ord.*")(each) for each in (short, long)] == [True, False]
    assert [topic_pattern("a/b/.*")(each) for each in (short, long)] == [False, True]
    assert topic_pattern("persistent://a/b/o[a-z]*")(long)


@pytest.mark.process
def test_a_pattern_that_takes_no_topic_in(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Server(tmp_path) as server:
        place = ["--service-url", server.broker_url, "--pattern", "ord.*", "--path", "p", "--checkpoint", "c"]
        assert main(place) == 1
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.endswith("no topic matches 'ord.*'; names are as persistent://public/default/orders")


@pytest.mark.parametrize(
    ("source", "pyspark", "needs", "complaint"),
    [
        ("python", "4.1.1", "", ""),
        ("python", "4.3.0", "--format delta", ""),
        ("python", "4.0.1", "", "the data source in Python needs 4.1"),
        ("connector", "3.4.4", "", ""),
        ("connector", "4.0.1", "--format delta", ""),
        ("connector", "3.5.9", "--format delta", "--format delta needs pyspark 4.0 or newer, this is 3.5.9"),
    ],
)
def test_a_pyspark_that_is_too_old_is_told_so(source: str, pyspark: str, needs: str, complaint: str) -> None:
    if not complaint:
        check_versions(source, pyspark, needs)
        return
    with pytest.raises(BadOption, match=complaint):
        check_versions(source, pyspark, needs)


def test_the_connector_gets_full_names_and_ids_as_signed_bytes() -> None:
    given = {"admin.url": "http://a", "topic": "t", "startingOffsets": json.dumps({"t": "200:3", TOPIC + "2": [8, 1]})}
    made = connector_options(given)
    assert made["topic"] == TOPIC
    offsets = json.loads(made["startingOffsets"])
    assert offsets[TOPIC][:5] == [8, -56, 1, 16, 3]
    assert offsets[TOPIC + "2"] == [8, 1]
    assert (
        connector_options({"admin.url": "http://a", "topics": "a, b"})["topics"] == TOPIC[:-1] + "a," + TOPIC[:-1] + "b"
    )


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"topic": "t"}, "--source connector needs --admin-url"),
        ({"topic": "t", "admin.url": "http://a", "maxOffsetsPerTrigger": "5"}, "--max-messages"),
    ],
)
def test_what_the_connector_has_not_is_said(given: dict[str, str], complaint: str) -> None:
    with pytest.raises(BadOption, match=complaint):
        connector_options(given)
