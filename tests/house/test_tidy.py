"""The rules of the house that a machine can check. Each violation is one line: where, what, and what to do instead.

Imports go one way: pulsar_proto <- metadata <- storage <- server, and what decides does no I/O (docs/ARCHITECTURE.md).
"""

import ast
import re
from pathlib import Path

from tests.house.tree import ROOT, imports_in, is_test, name_of, parsed, report, sources

FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 70
WAITING = "tests/waiting.py"
"""The tests' way to wait for what nobody announces."""
VIRTUAL_LOOP = "virtual_loop.py"
"""Tests beside a file of this name run on its loop, where a sleep costs no time."""

RULES_WITHOUT_IO = (
    "**/*_rules.py",
    "pulsar_proto/*.py",
    "pulsar_proto/wire/*.py",
    "pulsar_proto/records/*.py",
    "metadata/record_watches.py",
    "metadata/embedded/record_rows.py",
    "metadata/embedded/write_ahead_log.py",
    "metadata/paths.py",
    "metadata/zookeeper/jute_codec.py",
    "storage/ledger/bookie_health.py",
    "storage/ledger/wire_pending.py",
    "storage/bookie/wire_session.py",
    "storage/bookie/lac_table.py",
    "storage/bookie/index_runs.py",
    "storage/managed/ack_sets.py",
    "storage/managed/ack_state.py",
    "storage/managed/ack_holes.py",
    "storage/managed/bitmap_ranges.py",
    "storage/managed/bitmap_words.py",
    "storage/managed/gaps.py",
    "storage/managed/ledger_list.py",
    "storage/managed/append_queue.py",
    "storage/managed/tail_cache.py",
    "storage/managed/cursor_record.py",
    "storage/managed/list_record.py",
    "storage/managed/cursor_parts.py",
    "metadata/zookeeper/service_uri.py",
    "server/config/properties_file.py",
    "server/config/honoured_keys.py",
    "server/security/authorizer.py",
    "server/security/demands.py",
    "server/security/principals.py",
    "server/security/operations.py",
    "server/security/tls_provider.py",
    "server/topics/subscriptions/delay_index.py",
    "server/topics/token_bucket.py",
    "server/config/upkeep_settings.py",
    "server/admin/bodies.py",
    "server/admin/policy_rows.py",
    "server/admin/policy_shapes.py",
    "server/namespaces/bundle_ranges.py",
    "server/policies/effective_policies.py",
    "server/policies/event_schema.py",
    "server/policies/policy_events.py",
    "server/policies/policy_values.py",
    "server/web/needs.py",
    "server/web/router.py",
    "server/schema/schema_types.py",
    "server/schema/avro_schema.py",
    "server/schema/key_value.py",
    "server/schema/protobuf_native.py",
    "spark/jobs/replay/replay_values.py",
    "spark/source/columns/*.py",
    "spark/source/decoding/*.py",
    "spark/source/ranges/*.py",
)
SEEDED_RANDOM = "random.Random"
"""Rule modules may name the type of the generator that is passed to them."""
IO_MODULES = {"asyncio", "os", "random", "secrets", "select", "socket", "sqlite3", "subprocess", "threading", "time"}
"""Modules that do I/O. Rule modules do not import them: time and chance are arguments, and bytes come in and go out."""

WALL_CLOCK = re.compile(r"^_?(now|time|clock|wall|wall_clock)_ms$")
"""Matches names that hold the time of day. That may jump, so every interval is measured by a monotonic clock
(`…_s`)."""
STORED_TIMES = {
    "server/stats/process_metrics.py": "when the process began, shown as Unix time",
    "server/admin/transaction_calls.py": "when transactions began, which is stored in their log",
    "server/transactions/coordinator.py": "when transactions began, which is stored in their log",
    "server/topics/topic.py": "where a reader starts, by publish times",
    "server/topics/backlog.py": "publish and delivery times of messages",
    "server/topics/publishing/quota_gate.py": "publish times",
    "server/topics/publish_times.py": "publish times",
    "server/topics/subscriptions/shared_dispatcher.py": "delivery times of messages",
    "server/topics/subscriptions/delayed_delivery.py": "delivery times; looks again within LOOK_SECONDS_MAX",
    "server/stats/topic_metrics.py": "publish times",
    "server/telemetry/gathering.py": "publish times",
    "server/stats/persistent_topic_stats.py": "publish times",
    "server/why/answers.py": "publish times",
    "server/why/producer_rules.py": "when the last message came",
    "server/why/refusal_rules.py": "when a client was refused",
    "server/why/subscription_rules.py": "when subscriptions were used last, which is stored with their cursors",
    "server/upkeep/jobs.py": "when subscriptions were used last, which is stored with their cursors",
    "server/tools/messages/reading.py": "publish times of messages",
    "server/tools/messages/stats_check.py": "publish times of messages",
    "storage/managed/keeping_rules.py": "when ledgers were closed, which is stored in their list",
    "server/why/ledger_keeping_rules.py": "until when ledgers are retained",
    "storage/leaks/orphan_rules.py": "when records were made and written, which is stored with them",
    "storage/repair/repair_rules.py": "when the last check ended, which is stored for the next auditor",
    "spark/jobs/audit/audit_rules.py": "times of records",
    "spark/source/ranges/lag_rules.py": "publish times of messages",
}
"""The files that may compare or subtract the time of day, each with the stored time that it compares with."""

UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b")
MACHINE_PATH = re.compile(r"/wo" r"rk/|/ho" r"me/\w|/ro" r"ot/")


def test_there_is_something_to_check() -> None:
    assert len(sources()) > 100


def test_rules_do_no_io() -> None:
    violations = []
    for pattern in RULES_WITHOUT_IO:
        paths = sorted(path for path in ROOT.glob(pattern) if path in sources() and path.name != "__init__.py")
        for path in paths:
            violations += [
                f"{name_of(path)}:{line}: imports {module}; let the shell do that and hand the result in"
                for line, module in imports_in(path)
                if module.split(".")[0] in IO_MODULES and module != SEEDED_RANDOM
            ]
        if not paths:
            violations.append(f"{pattern}: no such file; correct the list in {name_of(Path(__file__))}")
    report(violations)


def test_files_have_one_responsibility_s_length() -> None:
    violations = []
    for path in sources():
        lines = len(path.read_text().splitlines())
        if lines > FILE_LINES_MAX:
            violations.append(f"{name_of(path)}: {lines} lines, at most {FILE_LINES_MAX}; split it by responsibility")
    report(violations)


def test_functions_fit_a_screen() -> None:
    violations = []
    for path in sources():
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > FUNCTION_LINES_MAX:
                    violations.append(
                        f"{name_of(path)}:{node.lineno}: {node.name} has {lines} lines, at most {FUNCTION_LINES_MAX}"
                    )
    report(violations)


def test_modules_say_what_they_are_for() -> None:
    report(
        [
            f"{name_of(path)}:1: no module docstring; say what it is responsible for and where its facts come from"
            for path in sources()
            if parsed(path).body and ast.get_docstring(parsed(path)) is None
        ]
    )


def test_tests_wait_for_conditions_and_never_sleep() -> None:
    violations = [
        f"{name_of(path)}:{node.lineno}: sleeps; wait for the condition with {WAITING}"
        for path in sources()
        if name_of(path).startswith("tests/") and name_of(path) != WAITING
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Call) and sleeps(node, in_virtual_time=(path.parent / VIRTUAL_LOOP).exists())
    ]
    report(violations)


def sleeps(call: ast.Call, *, in_virtual_time: bool) -> bool:
    """Returns whether the call is `time.sleep`, or `asyncio.sleep` with anything but a literal 0, which only gives
    other tasks their turn."""
    function = ast.unparse(call.func)
    if function == "time.sleep":
        return True
    if function not in ("asyncio.sleep", "sleep") or in_virtual_time:
        return False
    return not (call.args and isinstance(call.args[0], ast.Constant) and call.args[0].value == 0)


def test_a_sleep_is_told_from_giving_others_their_turn() -> None:
    calls = {
        "asyncio.sleep(0)": False,
        "asyncio.sleep(0.1)": True,
        "asyncio.sleep(delay)": True,
        "sleep(1)": True,
        "time.sleep(0)": True,
        "clock.sleep(1)": False,
    }
    for text, expected in calls.items():
        call = ast.parse(text, mode="eval").body
        assert isinstance(call, ast.Call)
        assert sleeps(call, in_virtual_time=False) is expected, text


def test_intervals_are_monotonic() -> None:
    violations = []
    for path in sources():
        name = name_of(path)
        if is_test(path) or name.startswith("bench/"):
            continue
        nodes = (node for node in ast.walk(parsed(path)) if isinstance(node, ast.expr))
        lines = sorted({node.lineno for node in nodes if measures_by_wall_clock(node)})
        if lines and name not in STORED_TIMES:
            violations.append(f"{name}:{lines[0]}: measures by the time of day, which jumps; use time.monotonic()")
        elif not lines and name in STORED_TIMES:
            violations.append(f"{name}: measures nothing; take it out of STORED_TIMES")
    report(violations)


def measures_by_wall_clock(node: ast.expr) -> bool:
    """Returns whether the expression compares the time of day, or adds something to it or subtracts something from
    it."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        return is_wall_clock(node.left) or is_wall_clock(node.right)
    if isinstance(node, ast.Compare) and not isinstance(node.ops[0], ast.Is | ast.IsNot):
        return any(map(is_wall_clock, (node.left, *node.comparators)))
    return False


def is_wall_clock(node: ast.expr) -> bool:
    """Returns whether the expression is a name that `WALL_CLOCK` matches, a call of such a name, time.time(), or such a
    value multiplied or divided."""
    if isinstance(node, ast.Call):
        return ast.unparse(node.func) in ("time.time", "time.time_ns") or is_wall_clock(node.func)
    if isinstance(node, ast.BinOp):
        return is_wall_clock(node.left) or is_wall_clock(node.right)
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return WALL_CLOCK.match(name) is not None


def test_what_measures_by_the_wall_clock_is_told_from_what_does_not() -> None:
    expressions = {
        "now_ms - self._began_ms": True,
        "self._clock_ms() >= self._retry_at": True,
        "time.time() + 5": True,
        "time.time_ns() // 1_000_000 - began": True,
        "clocks.wall_ms() - began": True,
        "time.monotonic() - began_s": False,
        "now_s - began_s": False,
        "delay_ms + 5": False,
        "now_ms is None": False,
        "int(time.time() * 1000)": False,
    }
    for text, expected in expressions.items():
        assert measures_by_wall_clock(ast.parse(text, mode="eval").body) is expected, text


def test_nothing_is_left_for_later_and_no_machine_is_named() -> None:
    violations = []
    for path in sources():
        for number, line in enumerate(path.read_text().splitlines(), start=1):
            for pattern, what in (
                (UNFINISHED, "finish it, or write an issue"),
                (MACHINE_PATH, "name no machine's path"),
            ):
                match = pattern.search(line)
                if match:
                    violations.append(f"{name_of(path)}:{number}: '{match[0]}': {what}")
    report(violations)


def test_test_folders_are_packages() -> None:
    """Without packages, two test files of the same name would hide each other."""
    folders = {path.parent for path in sources() if is_test(path)}
    report(
        [f"{name_of(folder)}: no __init__.py" for folder in sorted(folders) if not (folder / "__init__.py").exists()]
    )
