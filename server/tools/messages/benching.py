"""`magnetar bench`: starts the processes, watches them, and reports."""

import contextlib
import csv
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from magnetar.server.tools.connection.connection_errors import AdminCallError
from magnetar.server.tools.connection.http_client import AdminHttp, path_of
from magnetar.server.tools.connection.settings import ConnectionSettings
from magnetar.server.tools.messages.bench_rules import (
    MARK_BYTES,
    ClientResult,
    Plan,
    Role,
    row_of,
    spread,
    tasks_of,
    text_line,
    total_of,
    tree_of,
)
from magnetar.server.tools.messages.bench_worker import work
from magnetar.server.tools.messages.interruption import Interruption
from magnetar.server.tools.messages.message_client import import_client, open_client, reach
from magnetar.server.tools.messages.progress import Progress
from magnetar.server.tools.messages.tool_errors import ToolError
from pulsar_proto.counted import counted
from pulsar_proto.names import TopicName

LOOK_SECONDS = 0.1
IDLE_SECONDS = 10.0
"""Consumers end when nothing has come for so long, after the producers have ended."""
READY_SECONDS = 60.0
END_SECONDS = 60.0


def bench(
    settings: ConnectionSettings, plan: Plan, *, as_json: bool, csv_path: str, remove_topic: bool, quiet: bool
) -> int:
    """Runs the bench and prints its report. Returns 0 when all messages that were asked for were published and
    consumed. Raises ToolError."""
    import_client()
    reach(settings)
    if csv_path:
        _try_to_write(csv_path)
    interruption = Interruption().install()
    running = _Running(settings, plan, quiet)
    try:
        running.wait_until_ready(interruption)
        if not as_json:
            print(plan.describe(), flush=True)
        results = running.run(interruption)
    finally:
        running.end()
        if running.has_begun and plan.mode != "pub" and not remove_topic:
            _remove_subscription(settings, plan)
        if running.has_begun and remove_topic:
            _remove_topic(settings, plan.topic)
    _report(plan, results, as_json, csv_path)
    return _verdict(plan, results, interruption)


class _Running:
    """The processes of a bench."""

    def __init__(self, settings: ConnectionSettings, plan: Plan, quiet: bool) -> None:
        self._plan = plan
        self._progress = Progress("message", quiet=quiet)
        mark = os.urandom(MARK_BYTES)
        context = multiprocessing.get_context("spawn")
        self._processes: list[BaseProcess] = []
        self._pipes: list[Connection] = []
        self._received: dict[int, int] = {}
        self._sent: dict[int, int] = {}
        self._results: list[ClientResult] = []
        for tasks in spread(tasks_of(plan), plan.processes):
            ours, theirs = context.Pipe()
            process = context.Process(target=work, args=(theirs, settings, plan, mark, tasks), daemon=True)
            process.start()
            theirs.close()
            self._processes.append(process)
            self._pipes.append(ours)
        self._open = list(self._pipes)
        self.has_begun = False
        """Whether all clients were connected once, so that there is a topic and a subscription."""

    def run(self, interruption: Interruption) -> list[ClientResult]:
        """Lets all clients begin at once, and returns their results. Raises ToolError."""
        self.has_begun = True
        self._say("go")
        began_s = changed_s = time.monotonic()
        last, stopped_s = (-1, -1), 0.0
        while self._open:
            self._listen()
            now_s = time.monotonic()
            counts = (sum(self._received.values()), sum(self._sent.values()))
            if counts != last:
                last, changed_s = counts, now_s
            self._progress.update(max(counts))
            if not stopped_s and (interruption or self._is_over(counts, now_s - began_s, now_s - changed_s)):
                stopped_s = now_s
                self._say("stop")
            if stopped_s and now_s - stopped_s > END_SECONDS:
                raise ToolError("a process of the bench does not end")
        self._progress.end(max(last))
        return sorted(self._results, key=lambda each: (each.role is Role.CONSUMER, each.number))

    def _is_over(self, counts: tuple[int, int], seconds: float, idle_s: float) -> bool:
        """Returns whether consumers shall end. Producers end by themselves."""
        received, sent = counts
        plan = self._plan
        if plan.mode == "pub":
            return False
        if plan.duration_s and seconds >= plan.duration_s and (plan.mode == "sub" or received >= sent):
            return True
        if plan.messages and received >= plan.messages:
            return True
        return idle_s >= IDLE_SECONDS

    def wait_until_ready(self, interruption: Interruption) -> None:
        """Returns when all clients are connected. Raises ToolError when one of them cannot be."""
        waiting = set(self._pipes)
        until_s = time.monotonic() + READY_SECONDS
        while waiting:
            for pipe in wait(list(waiting), LOOK_SECONDS):
                assert isinstance(pipe, Connection)
                try:
                    kind, value = pipe.recv()
                except EOFError:
                    raise ToolError("a process of the bench ended at its start") from None
                if kind == "failed":
                    raise ToolError(str(value))
                waiting.discard(pipe)
            if interruption or time.monotonic() > until_s:
                raise ToolError("interrupted" if interruption else "the clients did not connect in time")

    def _listen(self) -> None:
        for pipe in wait(self._open, LOOK_SECONDS):
            assert isinstance(pipe, Connection)
            number = self._pipes.index(pipe)
            try:
                kind, value = pipe.recv()
            except (EOFError, OSError):
                self._open.remove(pipe)
                continue
            if kind == "count":
                self._received[number], self._sent[number] = value
            elif kind == "done":
                self._results += value
                self._open.remove(pipe)

    def _say(self, word: str) -> None:
        for pipe in self._open:
            with contextlib.suppress(OSError):  # The end of a process is noticed by the next read.
                pipe.send(word)

    def end(self) -> None:
        """Ends processes that are still there."""
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.join(1.0)
            if process.is_alive():
                process.kill()
                process.join()


def _try_to_write(path: str) -> None:
    try:
        Path(path).open("a").close()
    except OSError as error:
        raise ToolError(f"--csv: {path}: {error.strerror}") from None


def _remove_subscription(settings: ConnectionSettings, plan: Plan) -> None:
    """Removes the bench's own subscription, which would keep all later messages for nobody. A consumer's rights are
    enough."""
    pulsar = import_client()
    try:
        client = open_client(settings)
        client.subscribe(plan.topic, plan.subscription).unsubscribe()
        client.close()
    except (pulsar.PulsarException, ToolError) as error:
        print(f"magnetar bench: the subscription {plan.subscription} stays on {plan.topic}: {error}", file=sys.stderr)


def _remove_topic(settings: ConnectionSettings, topic: str) -> None:
    name = TopicName.parse(topic)
    path = path_of("admin", "v2", name.domain, name.tenant, name.namespace_name, name.local_name)
    try:
        AdminHttp(settings).delete(path, (("force", "true"),))
    except AdminCallError as error:
        print(f"magnetar bench: {topic} stays: {error}", file=sys.stderr)


def _report(plan: Plan, results: Sequence[ClientResult], as_json: bool, csv_path: str) -> None:
    if as_json:
        print(json.dumps(tree_of(plan, results)), flush=True)
    else:
        for role in Role:
            of_role = [each for each in results if each.role is role]
            for each in of_role:
                print(text_line(each))
            total = total_of(results, role)
            if total is not None and len(of_role) > 1:
                print(text_line(total))
        sys.stdout.flush()
    if csv_path and results:
        rows = [row_of(each) for each in results]
        try:
            with Path(csv_path).open("w", newline="") as file:
                writer = csv.DictWriter(file, list(rows[0]))
                writer.writeheader()
                writer.writerows(rows)
        except OSError as error:
            raise ToolError(f"--csv: {csv_path}: {error.strerror}") from None


def _verdict(plan: Plan, results: Sequence[ClientResult], interruption: Interruption) -> int:
    if interruption:
        return interruption.exit_code
    published, consumed = total_of(results, Role.PRODUCER), total_of(results, Role.CONSUMER)
    for total in (published, consumed):
        if total is not None and total.fault:
            raise ToolError(f"{total.role.value}s: {total.fault}")
    wanted = plan.messages or (published.messages if published is not None else 0)
    for total, word in ((published, "published"), (consumed, "consumed")):
        if total is not None and total.messages < wanted and not (plan.duration_s and plan.mode != "both"):
            raise ToolError(f"{total.messages} of {counted(wanted, 'message was', 'messages were')} {word}")
    return 0
