"""Details of answers on which the tools of administrators depend, as Apache Pulsar 4.0.7 has them."""

import json
from pathlib import Path

import pytest

from magnetar.server.admin import bodies
from tests.server.fakes import command
from tests.server.web.web_scene import TOPIC, Web, running
from tests.server.wire_client import Client

PATH = "/admin/v2/" + TOPIC.replace("://", "/")
NAMESPACE = "/admin/v2/namespaces/public/default"
DEFAULT_QUOTA = {"limit": -1, "limitSize": -1, "limitTime": -1, "policy": "producer_request_hold"}


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"g1", "g1"),
        (b'"g1"', "g1"),
        (b" g1\n", "g1"),
        (b"", ""),
        (b"null", ""),
        (b'""', ""),
        (b"7", "7"),
        (b"a b", "a b"),
    ],
)
def test_a_text_alone_is_read_with_quotation_marks_and_without(body: bytes, text: str) -> None:
    assert bodies.word(body) == text


@pytest.mark.parametrize("body", ["g1", '"g1"'])
async def test_an_anti_affinity_group_is_set_by_a_bare_word_as_java_s_tool_sends_it(tmp_path: Path, body: str) -> None:
    async with running(tmp_path) as web:
        path = f"{NAMESPACE}/antiAffinity"
        assert await web.call("POST", path, body) == (204, "")
        assert await web.call("GET", path) == (200, "g1")
        assert await web.json("/admin/namespaces/standalone/antiAffinity/g1?property=public") == ["public/default"]
        assert await web.call("POST", path, "") == (204, "")
        assert await web.call("GET", path) == (204, "")


@pytest.mark.parametrize("nothing", [None, "", "null"])
async def test_peers_of_a_cluster_are_taken_away_by_no_body(tmp_path: Path, nothing: str | None) -> None:
    async with running(tmp_path) as web:
        await web.call("PUT", "/admin/v2/clusters/c2", '{"serviceUrl": "http://h:1"}')
        peers = "/admin/v2/clusters/c2/peers"
        assert await web.call("POST", peers, '["standalone"]') == (204, "")
        assert await web.call("POST", peers, nothing) == (204, "")
        assert await web.call("GET", peers) == (200, "")
        assert await web.call("POST", peers, "[]") == (204, "")
        assert await web.call("GET", peers) == (200, "[]")


async def test_applied_backlog_quotas_are_one_level_s_and_not_mixed(tmp_path: Path) -> None:
    async with running(tmp_path) as web:
        await web.publish(1)
        applied = f"{PATH}/backlogQuotaMap?applied=true"
        assert await web.json(applied) == {"destination_storage": DEFAULT_QUOTA, "message_age": DEFAULT_QUOTA}
        of_namespace = {"limit": 0, "limitSize": 0, "limitTime": 60, "policy": "producer_exception"}
        quota = "backlogQuota?backlogQuotaType=message_age"
        await web.call("POST", f"{NAMESPACE}/{quota}", '{"limitTime": 60, "policy": "producer_exception"}')
        assert await web.json(applied) == {"message_age": of_namespace}
        await web.call("POST", f"{PATH}/{quota}", '{"limitTime": 3600, "policy": "producer_exception"}')
        assert await web.json(applied) == {"message_age": {**of_namespace, "limitTime": 3600}}
        await web.call("DELETE", f"{PATH}/{quota}")
        assert await web.json(f"{PATH}/backlogQuotaMap") == {}
        assert await web.json(applied) == {"message_age": of_namespace}


async def test_peeking_makes_a_subscription_at_the_first_message(tmp_path: Path) -> None:
    async with running(tmp_path) as web:
        await web.publish(3)
        assert await web.call("GET", f"{PATH}/subscription/new/position/1") == (200, "x")
        assert (await web.call("GET", f"{PATH}/subscription/new/position/4"))[0] == 404
        assert (await web.json(f"{PATH}/stats"))["subscriptions"]["new"]["msgBacklog"] == 3
        assert (await web.call("POST", f"{PATH}/subscription/other/skip/1"))[0] == 404
        assert await web.json(f"{PATH}/subscriptions") == ["new"]


async def test_the_bookie_of_a_standalone_is_listed_over_restarts(tmp_path: Path) -> None:
    for _ in range(2):
        async with running(tmp_path) as web:
            assert await web.json("/admin/v2/bookies/all") == {"bookies": [{"bookieId": "127.0.0.1:3181"}]}


async def test_the_end_of_an_empty_topic_names_a_ledger(tmp_path: Path) -> None:
    async with running(tmp_path) as web:
        await web.call("PUT", PATH)
        ended = await web.call("POST", f"{PATH}/terminate")
        last = json.loads(ended[1])
        assert (last["ledgerId"] >= 0, last["entryId"]) == (True, -1)
        assert await web.call("POST", f"{PATH}/terminate") == ended
        stats = await web.json(f"{PATH}/internalStats")
        assert (stats["state"], stats["lastConfirmedEntry"]) == ("Terminated", f"{last['ledgerId']}:-1")
    async with running(tmp_path) as web:
        assert await web.call("POST", f"{PATH}/terminate") == ended


async def test_internal_stats_show_ledgers_records_and_who_waits(tmp_path: Path) -> None:
    async with running(tmp_path) as web:
        await web.publish(2)
        await web.call("PUT", f"{PATH}/subscription/s", '"earliest"')
        ledger = (await web.json(f"{PATH}/internalStats"))["ledgers"][0]
        assert "metadata" not in ledger
        stats = await web.json(f"{PATH}/internalStats?metadata=true")
        text = stats["ledgers"][0]["metadata"]
        assert text.startswith(
            "LedgerMetadata{formatVersion=3, ensembleSize=1, writeQuorumSize=1, ackQuorumSize=1, state=OPEN, "
            "digestType=CRC32C, password=OMITTED, ensembles={0=[127.0.0.1:3181]}, customMetadata={"
        )
        assert "component=base64:bWFuYWdlZC1sZWRnZXI=" in text
        cursor = stats["cursors"]["s"]
        assert cursor["lastLedgerSwitchTimestamp"].endswith("Z")
        assert (stats["waitingCursorsCount"], cursor["waitingReadOp"]) == (0, False)
        client = await a_consumer(web)
        stats = await web.json(f"{PATH}/internalStats")
        assert (stats["waitingCursorsCount"], stats["cursors"]["s"]["waitingReadOp"]) == (1, True)
        assert stats["cursors"]["s"]["subscriptionHavePendingRead"]
        consumer = (await web.json(f"{PATH}/stats"))["subscriptions"]["s"]["consumers"][0]
        assert (consumer["msgOutCounter"], consumer["avgMessagesPerEntry"]) == (2, 1)
        client.writer.close()


async def a_consumer(web: Web) -> Client:
    """Returns a consumer that has received both messages."""
    client = await Client.connect(int(web.server.broker_url.rpartition(":")[2]))
    client.say(command("SUBSCRIBE", "subscribe", topic=TOPIC, subscription="s", subType=1, consumer_id=1, request_id=1))
    await client.answer()
    client.say(command("FLOW", "flow", consumer_id=1, messagePermits=100))
    for _ in range(2):
        await client.answer()
    return client


async def test_the_load_report_has_the_fields_that_java_s_class_has(tmp_path: Path) -> None:
    async with running(tmp_path) as web:
        report = await web.json("/admin/v2/broker-stats/load-report")
        assert report["loadManagerClassName"].endswith("NoopLoadManager")
        assert 0 < report["startTimestamp"] <= report["lastUpdate"]
        assert 0 < report["maxResourceUsage"] <= 1


async def test_stats_of_a_non_persistent_topic_have_the_fields_of_a_persistent_one_s(tmp_path: Path) -> None:
    only_ours = {"entriesInAckHoles", "ackHolesFilledTotal", "whyIdle"}
    async with running(tmp_path) as web:
        client = await Client.connect(int(web.server.broker_url.rpartition(":")[2]))
        fleeting = TOPIC.replace("persistent", "non-persistent", 1)
        for number, topic in enumerate((TOPIC, fleeting)):
            client.say(
                command(
                    "SUBSCRIBE", "subscribe", topic=topic, subscription="s", subType=1, consumer_id=number, request_id=1
                )
            )
            await client.answer()
        paths = [PATH, PATH.replace("persistent", "non-persistent", 1)]
        stored, passing = [(await web.json(f"{path}/stats"))["subscriptions"]["s"] for path in paths]
        assert set(stored) - set(passing) == only_ours
        assert set(stored["consumers"][0]) == set(passing["consumers"][0])
        assert stored["consumers"][0]["lastAckedTime"] == "1970-01-01T00:00:00Z"
        cursor = (await web.json(f"{paths[1]}/internalStats"))["cursors"]["s"]
        assert (cursor["active"], cursor["pendingReadOps"]) == (False, 0)
        client.writer.close()
