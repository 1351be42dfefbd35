"""The ledgers of a namespace with a bookie affinity group are on the bookies of the group, from the next ledger on."""

import json
import urllib.request
from pathlib import Path
from typing import Any

from compat_tests.cluster.cluster import Cluster
from compat_tests.cluster.seats import BrokerSeat
from compat_tests.conftest import ClientFactory
from compat_tests.harness import wait_until

NAMESPACE = "public/grouped"
TOPIC = f"persistent://{NAMESPACE}/t"


def call(broker: BrokerSeat, method: str, path: str, body: object = None) -> Any:
    request = urllib.request.Request(
        f"{broker.web_url}/admin/v2/{path}",
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request) as answer:
        return json.loads(answer.read() or b"null")


def ensembles(cluster: Cluster, broker: BrokerSeat) -> list[set[str]]:
    """Returns the bookies of each ledger of the topic."""
    ledgers = call(broker, "GET", f"persistent/{NAMESPACE}/t/internalStats?metadata=true")["ledgers"]
    found = []
    for ledger in ledgers:
        text = str(ledger["metadata"])
        found.append({bookie.bookie_id for bookie in cluster.bookies if bookie.bookie_id in text})
    return found


def test_a_group_is_obeyed_from_the_next_ledger_on(tmp_path: Path, make_client: ClientFactory) -> None:
    one_entry = {"managedLedgerMaxEntriesPerLedger": "1", "managedLedgerMinLedgerRolloverTimeMinutes": "0"}
    one_copy = {f"managedLedgerDefault{name}": "1" for name in ("EnsembleSize", "WriteQuorum", "AckQuorum")}
    with Cluster(tmp_path, bookies=3, settings=one_entry | one_copy) as cluster:
        broker = cluster.brokers[0]
        chosen = cluster.bookies[2].bookie_id
        for number, bookie in enumerate(cluster.bookies):
            info = {"rack": "/r", "hostname": bookie.bookie_id}
            call(broker, "POST", f"bookies/racks-info/{bookie.bookie_id}?group=g{number}", info)
        call(broker, "PUT", f"namespaces/{NAMESPACE}")
        call(
            broker, "POST", f"namespaces/{NAMESPACE}/retention", {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}
        )
        producer = make_client(cluster.service_url).create_producer(TOPIC, batching_enabled=False)
        for number in range(4):
            producer.send(str(number).encode())
        groups = {"bookkeeperAffinityGroupPrimary": "g2", "bookkeeperAffinityGroupSecondary": ""}
        call(broker, "POST", f"namespaces/{NAMESPACE}/persistence/bookieAffinity", groups)

        def new_ledgers_are_in_the_group() -> bool:
            producer.send(b"more")
            return ensembles(cluster, broker)[-1] == {chosen}

        wait_until(new_ledgers_are_in_the_group, "a ledger in the group")
        before = len(ensembles(cluster, broker))

        def ledgers_have_been_added() -> bool:
            producer.send(b"more")
            return len(ensembles(cluster, broker)) > before + 4

        wait_until(ledgers_have_been_added, "more ledgers, each of which is full soon")
        after = ensembles(cluster, broker)
        assert after[before:] == [{chosen}] * (len(after) - before)
