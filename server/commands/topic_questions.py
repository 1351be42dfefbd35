"""The options of the commands that ask a question about a topic, and how the question is asked."""

import argparse
import os
from collections.abc import Callable, Mapping
from typing import Any

from magnetar.server.tools.connection.shared_options import add_shared_options


def add_question_options(parser: argparse.ArgumentParser) -> None:
    """Adds -o, --watch and the options of the connection."""
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text", help="text unless it is given")
    parser.add_argument(
        "--watch",
        type=watch_seconds,
        metavar="SECONDS",
        help="ask again after so many seconds, and print an answer when it differs",
    )
    add_shared_options(parser)


def topic_name(text: str) -> tuple[str, ...]:
    """Returns (domain, tenant, namespace, local name) of a topic. A name alone is one of persistent://public/default,
    as for Apache's tools."""
    from pulsar_proto.errors import InvalidTopicName
    from pulsar_proto.names import TopicName

    try:
        name = TopicName.parse(text)
    except InvalidTopicName as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return ("persistent" if name.is_persistent else "non-persistent", *name.namespace.split("/"), name.local_name)


def watch_seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.1 <= seconds <= 86_400:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of seconds from 0.1 to a day")
    return seconds


def ask_about_topic(
    arguments: argparse.Namespace,
    to_text: Callable[[Mapping[str, Any]], str],
    exit_code: Callable[[Mapping[str, Any]], int] = lambda answer: 0,
    *,
    call: tuple[str, ...] = (),
    **query: str | None,
) -> int:
    """Asks what the command asks about `arguments.topic`, prints the answer, and returns the exit code. `call` names
    the REST call by the segments behind the topic, unless the command's name is the only one. A parameter of the
    `query` that is None is left out."""
    from magnetar.server.tools.diagnosis.topic_question import TopicQuestion, ask

    pairs = tuple((name, value) for name, value in query.items() if value is not None)
    return ask(
        TopicQuestion(arguments.command, call or (arguments.command,), arguments.topic, pairs, to_text, exit_code),
        flags=arguments.connection_flags,
        environment=os.environ,
        as_json=arguments.output == "json",
        watch_seconds=arguments.watch,
    )
