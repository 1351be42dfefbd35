"""The plan of the house holds: each room imports only the rooms that it may, and there are no circles
(docs/ARCHITECTURE.md)."""

import ast
from collections.abc import Iterable, Mapping

from tests.house.rooms import MAY_IMPORT
from tests.house.tree import LINKED, arrows, imports_in, imports_of, name_of, report, sources

CIRCLE_FILES_MAX = 4
"""The most files that may import each other, directly or through others. A class and its parts may do so, a whole room
may not."""
NOTHING_OF_OURS = "compat_tests"
FREE = ("bench", "tests", NOTHING_OF_OURS)
VERSION = "magnetar/__init__.py"
"""This module holds the version of the product and imports nothing, so every room may import it."""


def room_of(path: str) -> str:
    """Returns the folder of a file: `server/web` for server/web/calls.py."""
    return path.rpartition("/")[0]


def wing_of(room: str) -> str:
    """Returns the top of a room's nested rooms: server/topics for server/topics/publishing. A room directly below a
    top-level folder is its own wing."""
    return "/".join(room.split("/")[:2])


def forbidden(arrow_table: Mapping[str, Mapping[str, int]]) -> list[str]:
    """The arrows between rooms that the table does not allow."""
    found = []
    for path, targets in arrow_table.items():
        room = room_of(path)
        if path.startswith(FREE):
            continue
        for target, line in targets.items():
            other = room_of(target)
            if target != VERSION and other != room and other not in MAY_IMPORT.get(room, ()):
                allowed = ", ".join(MAY_IMPORT.get(room, ())) or "nothing else of ours"
                found.append(f"{path}:{line}: imports {target}; {room} may import {allowed}")
    return found


def circles(graph: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """The strongly connected parts of more than one node (Tarjan's algorithm), each sorted."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        order[node] = low[node] = len(order)
        stack.append(node)
        for target in graph.get(node, ()):
            if target not in order:
                visit(target)
            if target in stack:
                low[node] = min(low[node], low[target])
        if low[node] == order[node]:
            part = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            if len(part) > 1:
                found.append(sorted(part))

    for node in graph:
        if node not in order:
            visit(node)
    return found


def too_large(found: list[list[str]]) -> list[str]:
    return [
        f"{len(each)} files import each other, at most {CIRCLE_FILES_MAX}: {', '.join(each)}"
        for each in found
        if len(each) > CIRCLE_FILES_MAX
    ]


def test_every_room_is_in_the_table_and_there_is_no_other() -> None:
    rooms = {room_of(name_of(path)) for path in sources() if not name_of(path).startswith(FREE)}
    assert rooms == set(MAY_IMPORT)
    named = {other for allowed in MAY_IMPORT.values() for other in allowed}
    assert named <= rooms


def test_imports_follow_the_table() -> None:
    report(forbidden(arrows()))


def test_the_table_allows_nothing_that_nobody_uses() -> None:
    """If a room may use another room, it may also list the rooms inside that one, whether or not it uses them today."""
    used = {(room_of(path), wing_of(room_of(target))) for path, targets in arrows().items() for target in targets}
    report(
        [
            f"tests/house/rooms.py: {room} imports nothing of {other}: take it out of the table"
            for room, allowed in MAY_IMPORT.items()
            for other in allowed
            if (room, wing_of(other)) not in used and not other.startswith(("pulsar_proto", "metadata", "storage"))
        ]
    )


def test_no_room_leads_back_to_itself() -> None:
    """A room inside another room belongs to that room."""
    graph: dict[str, set[str]] = {}
    for room, allowed in MAY_IMPORT.items():
        graph.setdefault(wing_of(room), set()).update(
            wing_of(other) for other in allowed if wing_of(other) != wing_of(room)
        )
    assert circles(graph) == []


def test_no_large_circle_of_files() -> None:
    report(too_large(circles(arrows())))


def test_the_suite_of_clients_imports_nothing_of_ours() -> None:
    report(
        [
            f"{path}:{line}: imports {target}; {NOTHING_OF_OURS} sees the product from outside only"
            for path, targets in arrows().items()
            if path.startswith(NOTHING_OF_OURS)
            for target, line in targets.items()
            if not target.startswith(FREE)
        ]
    )


def test_modules_have_one_name() -> None:
    """A module that is imported by two names would be two modules, so imports say `magnetar.server…` in the tree as
    well."""
    report(
        [
            f"{name_of(path)}:{line}: imports {module}; say magnetar.{module}"
            for path in sources()
            for line, module in imports_in(path)
            if module.split(".")[0] in LINKED
        ]
    )


def test_no_import_is_relative() -> None:
    report(
        [
            f"{name_of(path)}:{line}: imports {module}: name the package"
            for path in sources()
            for line, module in imports_in(path)
            if module.startswith(".")
        ]
    )


def test_tests_share_by_scenes_and_never_import_each_other() -> None:
    report(
        [
            f"{path}:{line}: imports {target}; move what both need to a module beside it"
            for path, targets in arrows().items()
            for target, line in targets.items()
            if is_test_file(target)
        ]
    )


def is_test_file(path: str) -> bool:
    return path.startswith(("tests/", "compat_tests/")) and path.rpartition("/")[2].startswith("test_")


def test_a_planted_arrow_and_planted_circles_are_found() -> None:
    up = {"server/schema/strategies.py": {"server/topics/topic.py": 3}}
    assert len(forbidden(up)) == 1
    assert forbidden({"server/topics/topic.py": {"server/schema/strategies.py": 3}}) == []
    ring = {f"server/web/{number}.py": {f"server/web/{(number + 1) % 5}.py": 1} for number in range(5)}
    assert len(too_large(circles(ring))) == 1
    del ring["server/web/4.py"]
    assert circles(ring) == []
    assert circles({"a": ["b"], "b": ["a"]}) == [["a", "b"]]


def test_what_is_imported_for_types_or_late_counts() -> None:
    tree = ast.parse(
        "if TYPE_CHECKING:\n    from magnetar.server.web import calls\n"
        "def f():\n    import magnetar.storage.bookie.bookie"
    )
    assert [module for _, module in imports_of(tree)] == ["magnetar.server.web.calls", "magnetar.storage.bookie.bookie"]
