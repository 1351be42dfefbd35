"""`pulsar-perf transaction` runs to its end, with its default settings and with many messages in a transaction."""

import re
import subprocess
from pathlib import Path

import pytest

from compat_tests.conftest import ClientFactory, ServerFactory
from compat_tests.java.client_jars import pulsar_perf
from compat_tests.maven_jars import need_java
from compat_tests.python.support import bodies, send_all

pytestmark = pytest.mark.slow

NAMESPACE = "persistent://public/default"
DEADLINE_SECONDS = 300
SPARE_MESSAGES = 1_000
"""The program waits for messages that its last transactions do not need."""


@pytest.mark.parametrize(("options", "messages", "count"), [((), 1, 200), (("-nmp", "50", "-nmc", "50"), 50, 50)])
def test_pulsar_perf_ends_all_transactions_without_an_error(
    make_server: ServerFactory,
    make_client: ClientFactory,
    tmp_path: Path,
    options: tuple[str, ...],
    messages: int,
    count: int,
) -> None:
    need_java()
    server = make_server(settings={"transactionCoordinatorEnabled": "true"})
    server.start()
    client = make_client(server.broker_url)
    client.subscribe(f"{NAMESPACE}/in", "sub").close()
    producer = client.create_producer(f"{NAMESPACE}/in", block_if_queue_full=True)
    send_all(producer, bodies(count * messages + SPARE_MESSAGES))
    topics = ["--topics-c", f"{NAMESPACE}/in", "--topics-p", f"{NAMESPACE}/out"]
    command = pulsar_perf("transaction", "-u", server.broker_url, "-au", server.web_url, "-ntxn", str(count), *topics)
    # The program leaves a file of latencies where it runs.
    done = subprocess.run([*command, *options], cwd=tmp_path, capture_output=True, text=True, timeout=DEADLINE_SECONDS)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said[-3000:]
    assert not re.search(r"\b(error|exception)\b", said, re.IGNORECASE), said[-3000:]
    ended = re.search(r"(\d+) transaction end successfully", said)
    assert ended is not None, said[-3000:]
    assert int(ended[1]) == count
