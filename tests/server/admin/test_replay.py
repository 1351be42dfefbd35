"""The calls that were captured at Apache Pulsar 4.0.7 get the same answers here, when they are made again in order.
Three lists say what is not equal: calls that do not exist here, answers that are better here, and differences that are
no fault. Everything else must agree in status, body and error text."""

import re
from pathlib import Path

from magnetar.server.programs.standalone import Standalone, StandaloneOptions
from tests.server.admin.captures import SETTINGS, ask_everything
from tests.server.admin.replay import Mismatch, report

BETTER: tuple[tuple[str, int], ...] = (
    (r'PUT /admin/v2/namespaces/v1/n3 \{"bundles":\{"numBundles":1000000000000\}\}', 409),
    (r'POST \S+/permissions/\S+ \["bad"\]', 400),
    (r"GET \S+/v1/n1/permissions ", 200),
    (r'\S+ \S+ (\["Bad"\]|"bad"|\{"inactiveTopicDeleteMode":"bad"\})', 400),
    (r"DELETE /admin/v2/namespaces/v1/pol/[A-Za-z]+ ", 405),
    (r"GET /admin/v2/namespaces/v1/pol/(nosuchpolicy) ", 404),
    (r"GET /admin/v2/namespaces/public/default/destinations ", 404),
    (r'POST /admin/v2/namespaces/(v1/nope|nope/nope)/antiAffinity "g1"', 404),
    (r"GET /admin/v2/namespaces/v1/nope/antiAffinity ", 204),
    (r"GET /admin/v2/namespaces/standalone/antiAffinity/g1\?tenant=v1 ", 200),
    (r"\S+ /admin/v2/namespaces/(v1/nope|nope/nope)/\S+ .*", 404),
    (r"\S+ \S+/backlogQuota\?backlogQuotaType=bad .*", 400),
    (r"POST \S+/messageTTL\?messageTTL=x ", 400),
    (r"(GET|POST|PUT) \S+/(position|messageid|resetcursor)/(x|0|-1) ", 400),
    (r"(POST|PUT) \S+/(backlogQuota|partitions|backlogSize|expireMessages|resetcursor) ", 400),
    (r"GET \S+/(nope|np1)/internal-info ", 404),
    (r"GET \S+/entry/(999|-1) ", 404),
    (r"(GET|POST) \S+/t1/subscription/nope/\S+ .*", 404),
    (r"GET \S+/lookup/v2/topic/bad/public/default/t ", 404),
    (r"GET /lookup/v2/topic/bad/public/default/t ", 404),
    (r"GET /lookup/v2/topic/persistent/v1/n1/t1\?listenerName=nope ", 503),
    (r"PUT \S+/non-persistent/\S+/compaction ", 405),
    (r"PUT /admin/v2/namespaces/v1/n1/bad/unload ", 412),
    (r"POST /admin/v2/namespaces/v1/n1/clearBacklog/s1x ", 204),
    (r"DELETE /admin/v2/persistent/v1/n1/__change_events ", 412),
    (r"GET \S+/t1/subscriptions ", 200),
    (r"POST /admin/v2/clusters/ghost/migrate\S* .*", 404),
    (r"GET \S+/t1/subscription/s2/position/1 ", 200),
    (r"GET / ", 200),
)
"""Calls with a better answer here: a pattern of method, path and body, and the status. The faults of the caller are
answered as such, what does not exist is not created by another call, unknown names of a choice are refused, a
position that the caller excludes is excluded, and the web port says what it is."""

NO_FAULT: tuple[tuple[str, int], ...] = (
    (r"GET /admin/v2/namespaces/v1/pol ", 200),
    (r"GET /admin/v2/clusters ", 200),
    (r"GET \S+/t1/internalStats\?metadata=true ", 200),
    (r"GET \S+/pt/(internal-info|partitioned-internalStats) ", 200),
    (r"GET \S+/batched/internalStats ", 200),
    (r"POST \S+/all_subscription/expireMessages/3600 ", 409),
    (r"GET \S+/t1/compaction ", 200),
    (r"(POST|PUT) /admin/v2/namespaces/v1/n1/0x40000000_0x80000000/\S+ .*", 204),
    (r"GET /admin/v2/namespaces/v1/n1/0x40000000_0x80000000/topicHashPositions\S* ", 200),
    (r"PUT /admin/v2/namespaces/v1/pol/offloadThresholdInSeconds .*", 204),
)
"""Differences that are no fault: calls of other parts of the captures have changed what is shown; here a topic has no
ledger before its first message; the largest bundle is the one with the most loaded topics; which subscription is
refused first depends on a hash."""


def allowed(mismatch: Mismatch) -> bool:
    return any(
        re.fullmatch(pattern, mismatch.call) and mismatch.got_status == status
        for pattern, status in (*BETTER, *NO_FAULT)
    )


async def test_administrators_are_answered_as_apache_answers_them(tmp_path: Path) -> None:
    server = Standalone(StandaloneOptions(data_dir=tmp_path, broker_port=0, web_port=0, overrides=SETTINGS))
    await server.start()
    try:
        replay = await ask_everything(server.web_url, server.broker_url)
    finally:
        await server.stop()
    faults = [each for each in replay.mismatches if not allowed(each)]
    assert not faults, "\n" + report(faults)
    assert replay.calls >= 1_320, "the captures are asked"
    assert replay.calls - len(replay.mismatches) >= 1_240, "most agree wholly"
