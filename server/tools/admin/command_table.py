"""The types of the tables that describe the commands.

A table is a tuple of `Command`. Options and arguments become values under their keys (see `Option.key`), and paths,
queries and messages name these in braces: `Call("GET", "{topic}/stats", (("metadata", "{metadata}"),))`.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from magnetar.server.tools.admin.invocation import Invocation

Values = Mapping[str, Any]
"""What was given on the command line, by key, with the defaults of options that were not."""

TEXT = "text"
INTEGER = "integer"
LONG = "long"
FLOAT = "float"
BOOLEAN = "true|false"
FLAG = "flag"
"""Takes no value. It is the opposite of its default when it is given, as picocli's toggled booleans are."""
MARK = "mark"
"""Takes no value. It is true when it is given and else not sent at all."""
SECONDS = "time"
"""A time such as 90, 10m or 3h, as a number of seconds."""
MILLIS = "time-ms"
"""The same as a number of milliseconds."""
BYTES = "size"
"""A size such as 4096, 10M or 2T, as a number of bytes."""
LIST = "list"
"""May be given several times."""
COMMAS = "comma-list"
"""May be given several times, and each time with several values between commas."""
PAIRS = "pairs"
"""`key=value`; may be given several times."""
COMMA_PAIRS = "comma-pairs"
"""The same, also with several pairs between commas."""
WITHOUT_VALUE = (FLAG, MARK)

NOTHING = "nothing"
"""Nothing is printed."""
VALUE = "value"
"""The answer's value: a text as it is, everything else as Jackson's pretty printer writes it."""
QUOTED = "quoted"
"""The same, but a text is in quotation marks too, as in JSON."""
LINES = "lines"
"""Each item of the answer's list on a line."""
MAP = "map"
"""Each pair of the answer's object on a line, four blanks between key and value."""
RAW = "raw"
"""The answer's text as it came."""


class Option(NamedTuple):
    """An option. `names` holds its names with blanks between, short ones first."""

    names: str
    help: str
    kind: str = TEXT
    required: bool = False
    default: Any = None
    choices: tuple[str, ...] = ()
    hidden: bool = False
    called: str = ""
    """The key, when it is not made of a name."""

    @property
    def key(self) -> str:
        """Returns the first long name without its hyphens, else the first name."""
        names = self.names.split()
        return self.called or next((name for name in names if name.startswith("--")), names[0]).lstrip("-")

    @property
    def takes_value(self) -> bool:
        return self.kind not in WITHOUT_VALUE


TOPIC = "topic"
PERSISTENT_TOPIC = "persistent-topic"
NON_PERSISTENT_TOPIC = "non-persistent-topic"
NAMESPACE = "namespace"


class Argument(NamedTuple):
    """A positional argument. `kind` decides how it is judged and how the completion finds candidates. The value of an
    `optional` one, which only the last may be, is None when it is not given."""

    key: str
    help: str
    kind: str = TEXT
    many: bool = False
    optional: bool = False


Query = tuple[tuple[str, str], ...]
Body = str | Callable[[Values], Any] | None


class Call(NamedTuple):
    """A REST call. A query's value that names one key in braces is left out when there is no such value. `body` is the
    key of the value to send as JSON, or a function that makes the body."""

    method: str
    path: str
    query: Query = ()
    body: Body = None


class Command(NamedTuple):
    """A leaf of the command tree.

    `action` is one REST call, or a function for commands of several steps. `output` says how the answer, or what the
    function shows, looks as text; `message` is a line that is printed after success. `examples` are the words after the
    command's name.
    """

    name: str
    summary: str
    action: "Call | Callable[[Invocation], None]"
    arguments: tuple[Argument, ...] = ()
    options: tuple[Option, ...] = ()
    output: str = NOTHING
    message: str = ""
    order: tuple[str, ...] = ()
    """The fields of the answer in the order in which Java's class has them; others follow. Fields that are null are
    left out."""
    stats: bool = False
    """Whether the answer holds statistics, with rates that Java prints as doubles."""
    examples: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    hidden: bool = False


class Group(NamedTuple):
    """A group of commands. `tables` are the modules of this package that hold its rows in `COMMANDS`."""

    name: str
    summary: str
    tables: tuple[str, ...]
    aliases: tuple[str, ...] = ()
    hidden: bool = False


TOPIC_ARGUMENT = Argument("topic", "persistent://tenant/namespace/topic, tenant/namespace/topic or topic", TOPIC)
PERSISTENT_TOPIC_ARGUMENT = TOPIC_ARGUMENT._replace(kind=PERSISTENT_TOPIC)
NON_PERSISTENT_TOPIC_ARGUMENT = Argument("topic", "non-persistent://tenant/namespace/topic", NON_PERSISTENT_TOPIC)
NAMESPACE_ARGUMENT = Argument("namespace", "tenant/namespace", NAMESPACE)
SUBSCRIPTION = Option("-s --subscription", "name of the subscription", required=True)
