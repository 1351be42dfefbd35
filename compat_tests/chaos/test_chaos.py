"""Two rounds of chaos pass, and the judge of a round notices what the soak's judge does not look at. The test needs
namespaces, which root has, and others where the kernel lets them be root of their own; it does not skip without."""

import os
import subprocess
from pathlib import Path

import pytest

from compat_tests.chaos import isolation
from compat_tests.chaos.load import Progress
from compat_tests.chaos.shim import Controls, compile_shim, compiler
from compat_tests.harness import wait_until
from compat_tests.python.receipts import ProducerRecord, Stored
from compat_tests.soak.claims import Delivery, Order
from compat_tests.soak.stage import TopicRecord
from compat_tests.soak.topics import SHARED, SubscriptionSpec, TopicSpec

ROUNDS = 2
SEED = 20261124
"""The test always has the same faults. `make chaos` looks for faults that nobody has seen yet."""
FAULT_SECONDS = 4.0
RUN_SECONDS = 600


@pytest.mark.slow
def test_two_rounds_of_faults_lose_nothing(tmp_path: Path) -> None:
    assert not (reason := isolation.missing()), f"this machine gives no namespaces: {reason}"
    arguments = ["--rounds", str(ROUNDS), "--seed", str(SEED), "--seconds", str(FAULT_SECONDS)]
    command = [*isolation.bound_to_parent(), *isolation.command([*arguments, "--folder", str(tmp_path)])]
    environment = {**os.environ, isolation.INSIDE_VARIABLE: "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_SECONDS, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("all went on after") == ROUNDS, done.stdout


def test_the_program_and_all_its_processes_end_when_it_is_killed(tmp_path: Path) -> None:
    """The kernel ends everything in the namespaces of a killed run, so that nothing is left over for the next."""
    marks = tmp_path / "mark"
    shell = f"sleep 1000 & echo $! ; readlink /proc/self/ns/pid > {marks}; wait"
    words = [*isolation.bound_to_parent(), *isolation.unshare(), "sh", "-c", shell]
    process = subprocess.Popen(words, stdout=subprocess.PIPE)
    wait_until(lambda: marks.exists() and marks.read_text().endswith("\n"), "the namespace is there")
    namespace = marks.read_text().strip()
    assert processes_in(namespace)
    process.kill()
    process.wait()
    wait_until(lambda: not processes_in(namespace), "its processes are gone")
    assert process.stdout is not None
    process.stdout.close()


def processes_in(namespace: str) -> list[int]:
    """Returns the processes of a namespace of processes, by their pids outside."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if os.readlink(entry / "ns/pid") == namespace:
                    found.append(int(entry.name))
            except OSError:  # it has just ended
                continue
    return found


def test_the_library_moves_the_clock_and_fails_syncs(tmp_path: Path) -> None:
    assert compiler(), "no C compiler: clocks and disks are left out of the plans"
    controls = Controls(tmp_path / "control")
    environment = {**os.environ, **controls.environment(compile_shim(tmp_path))}
    program = f"import os, time; fd = os.open({str(tmp_path)!r}, os.O_RDONLY); print(time.time()); os.fsync(fd)"

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(["python3", "-c", program], capture_output=True, text=True, env=environment)

    before = run()
    assert before.returncode == 0
    assert controls.noticed() == 0
    controls.move_clock(-3600)
    assert -3600 <= float(run().stdout) - float(before.stdout) < -3000
    controls.fail_syncs(5)
    assert "Input/output error" in run().stderr
    assert controls.noticed() > 0
    controls.plain()
    assert run().returncode == 0


def test_a_client_that_does_not_go_on_is_named() -> None:
    spec = SubscriptionSpec("s", SHARED)
    topic = TopicRecord(TopicSpec("t", 1, ({},), (spec,)))
    producer = topic.producers["p"] = ProducerRecord("p", 2, [(1, 0, -1)])
    record = topic.subscription(spec, -1)
    assert record.order is Order.NONE
    progress = Progress([topic])
    producer.sent = 3
    producer.receipts.append((1, 1, -1))
    record.deliveries.append(Delivery(1.0, Stored("p", 1, (1, 1, -1))))
    assert progress.laggards() == ["producers of t", "subscription t s"]
    producer.receipts.append((1, 2, -1))
    assert progress.laggards() == ["subscription t s"]
    record.deliveries.append(Delivery(2.0, Stored("p", 2, (1, 2, -1))))
    assert progress.laggards() == []
