"""Every call of Apache's Java admin client is made against our server, and each has a route.

`Walk.java` finds the calls by reflection and makes up their arguments. Calls that are refused are listed here with
their status; all others must succeed. Against Apache Pulsar 4.0.7 the same calls succeed, and in addition those of the
services that its standalone has and ours has not.
"""

import re
import subprocess
from pathlib import Path

import pytest

from compat_tests.admin.java_admin import command
from compat_tests.harness import Server
from compat_tests.maven_jars import need_java

pytestmark = pytest.mark.slow

WALK_SECONDS_MAX = 300
"""The walk takes a quarter of a minute on a quiet machine."""
CALLS_MIN = 780

REFUSED = (
    (r"(Functions|Sinks?|Sources?|Worker)\.\w+", 409),
    (r"Packages\.\w+", 503),
    (r"Transactions\.(abortTransaction|getTransactionMetadata|getTransactionIn\w+)", 404),
    (r"Transactions\.get(Coordinator|TransactionBuffer)InternalStats", 404),
    (r"Transactions\.getPendingAckInternalStats", 503),
    (r"Transactions\.get\w+ById|Transactions\.get\w+ByCoordinatorId", 404),
    (r"Topics\.(createShadowTopic|setShadowTopics|triggerOffload)", 503),
    (r"BrokerStats\.(getAllocatorStats|getMBeans|getPendingBookieOpsStats)|ProxyStats\.\w+", 404),
    (r"(Namespaces|TopicPolicies)\.set(NamespaceEntryFilters|EntryFiltersPerTopic)", 400),
    (r"Namespaces\.getReplicationConfigVersion", 405),
    (r"Topics\.expireMessages.*, long", 409),
)
"""Calls of services that this server does not have, and calls that Apache refuses as well: filters, transactions and
coordinators that do not exist, a call that no broker knows any more, an expiry that finds nothing to expire."""

LEADS_NOWHERE = "There is nothing at"


def test_no_call_of_the_java_client_leads_nowhere(own_server: Server, tmp_path: Path) -> None:
    need_java()
    walked = subprocess.run(
        command("Walk.java", own_server.web_url, str(tmp_path)),
        capture_output=True,
        text=True,
        timeout=WALK_SECONDS_MAX,
        check=False,
    )
    calls = [line.split("\t") for line in walked.stdout.splitlines() if "\t" in line]
    assert len(calls) >= CALLS_MIN, walked.stderr[-3_000:]
    wrong = [
        f"{call}: {verdict} {reason}"
        for call, verdict, reason in calls
        if verdict != expected(call) or LEADS_NOWHERE in reason
    ]
    assert not wrong, "\n" + "\n".join(wrong)
    assert own_server.wait() == 0, "the last call shuts the server down"


def expected(call: str) -> str:
    return next((str(status) for pattern, status in REFUSED if re.match(rf"({pattern})\b", call)), "ok")
