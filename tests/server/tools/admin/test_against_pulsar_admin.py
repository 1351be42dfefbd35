"""The tables against Apache's pulsar-admin 4.0.6: every command with its options, and the calls of a thousand command
lines, both recorded from the tool itself."""

import contextlib
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from magnetar.server.tools.admin.admin_errors import CommandError, RefusedError, UsageError
from magnetar.server.tools.admin.groups import GROUPS, commands_of, find_command, find_group
from magnetar.server.tools.connection.connection_errors import AdminCallError
from tests.server.tools.admin.scene import Recorded, run_words

VECTORS = Path(__file__).parents[3] / "vectors"
COMMANDS = json.loads((VECTORS / "pulsar_admin_commands.json").read_text())
"""For each group and command its options (` =` takes a value, ` !` is required), arguments and aliases."""
CALLS = json.loads((VECTORS / "pulsar_admin_calls.json").read_text())
"""Words, and the calls that the tool made of them while every GET was answered with 404 and all else with 204."""
UPLOADS = json.loads((VECTORS / "pulsar_admin_uploads.json").read_text())
"""Words of commands that send a configuration and a file ({file}), with the call and the parts of its body."""
STOPS_EARLIER = {
    ("topics", "list"),
    ("topics", "list-partitioned-topics"),
    ("topics", "delete"),
    ("persistent", "list"),
    ("persistent", "list-partitioned-topics"),
}
"""Java makes these calls at the same time; here the first one fails and ends the command."""
DEFAULTS_LEFT_OUT = {("namespaces", "create")}
"""Java sends the whole of Policies; the fields that nobody gave have their defaults in the broker as well."""


def test_every_command_of_pulsar_admin_is_here_with_its_options() -> None:
    missing = []
    for group_name, commands in COMMANDS.items():
        group = find_group(group_name)
        assert group is not None, group_name
        for name, known in commands.items():
            command = find_command(group, name)
            if command is None:
                missing.append(f"{group_name} {name}")
                continue
            assert sorted(known["options"]) == sorted(described(option, known) for option in command.options), (
                group_name,
                name,
            )
            needed = [argument for argument in command.arguments if not argument.optional]
            assert len(needed) == known.get("arguments", 0), (group_name, name)
            for alias in known.get("aliases", ()):
                assert find_command(group, alias) is command or find_group(alias) is group
    assert not missing
    assert sum(map(len, COMMANDS.values())) == 543


def described(option: Any, known: dict[str, Any]) -> str:
    """Describes an option as the vector does, its names in the order of the vector."""
    ending = (" =" if option.takes_value else "") + (" !" if option.required else "")
    for text in map(str, known["options"]):
        if set(text.removesuffix(" !").removesuffix(" =").split()) == set(option.names.split()):
            names = text.removesuffix(" !").removesuffix(" =")
            return names + ending
    return str(option.names) + ending


def test_no_command_stands_in_a_table_twice() -> None:
    for group in GROUPS:
        names = [command.name for command in commands_of(group)]
        names += [alias for command in commands_of(group) for alias in command.aliases]
        assert len(names) == len(set(names)), group.name


@pytest.mark.parametrize("group", sorted({recorded["words"][0] for recorded in CALLS}))
def test_the_same_words_make_the_same_calls(group: str) -> None:
    wrong = []
    for recorded in CALLS:
        words = recorded["words"]
        if words[0] != group:
            continue
        http = Recorded()
        with contextlib.suppress(AdminCallError, UsageError, CommandError, RefusedError):
            run_words(words, http)
        made, expected = [plain(call) for call in http.calls], [expectation(call) for call in recorded["calls"]]
        leaf = (words[0], words[1])
        if leaf in DEFAULTS_LEFT_OUT:
            for call, wanted in zip(made, expected, strict=True):
                call[3] = {key: value for key, value in call[3].items() if value is not None}
                wanted[3] = {key: value for key, value in wanted[3].items() if key in call[3]}
        same = made == expected or (leaf in STOPS_EARLIER and bool(made) and all(call in expected for call in made))
        if not same:
            wrong.append(f"{' '.join(words)}\n   here {made}\n   Java {expected}")
    assert not wrong, "\n" + "\n".join(wrong)


def plain(call: list[Any]) -> list[Any]:
    method, path, body, media_type = call
    parts = urlsplit(re.sub(r"resetcursor/\d+", "resetcursor/TIME", path))
    content = None
    if body is not None and body != b"":
        try:
            content = json.loads(body)
        except ValueError:
            content = body.decode()
    kind = media_type if content is not None and media_type != "application/json" else None
    return [method, parts.path, sorted(parse_qsl(parts.query)), unordered(content), kind]


def expectation(call: list[Any]) -> list[Any]:
    method, path, *more = call
    parts = urlsplit(path)
    content = more[0] if more else None
    return [method, parts.path, sorted(parse_qsl(parts.query)), unordered(content), more[1] if len(more) > 1 else None]


def unordered(content: Any) -> Any:
    """Sorts lists, which come from sets in Java."""
    if isinstance(content, list):
        return sorted(content, key=str)
    if isinstance(content, dict):
        return {key: unordered(value) for key, value in content.items()}
    return content


@pytest.mark.parametrize("recorded", UPLOADS, ids=[" ".join(each["words"][:4]) for each in UPLOADS])
def test_what_describes_a_function_or_connector_is_sent_as_by_java(recorded: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "my.jar"
    file.write_bytes(b"data\n")
    http = Recorded()
    run_words([word.replace("{file}", str(file)) for word in recorded["words"]], http)
    ((method, path, body, media_type),) = http.calls
    assert [method, path] == recorded["call"]
    boundary = media_type.partition("boundary=")[2].encode()
    parts: dict[str, Any] = {}
    for part in body.split(b"--" + boundary)[1:-1]:
        head, _, content = part.partition(b"\r\n\r\n")
        name = re.search(rb' name="([^"]*)"', head)
        assert name is not None
        text = content.removesuffix(b"\r\n").decode()
        parts[name[1].decode()] = json.loads(text) if text.startswith("{") else text.strip()
    expected = json.loads(json.dumps(recorded["parts"]).replace("{file}", str(file)))
    for sent in (parts, expected):
        for config in sent.values():
            if isinstance(config, dict) and "inputSpecs" in config:
                # Java adds the defaults of each topic, which the worker would add too.
                config["inputSpecs"] = sorted(config["inputSpecs"])
    assert parts == expected
