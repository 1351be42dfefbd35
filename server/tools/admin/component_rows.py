"""The rows that `functions`, `sources` and `sinks` have in common. Their calls go to a functions worker, as Apache's
brokers have it; Magnetar has none and says so in its answers."""

from collections.abc import Callable
from typing import NamedTuple

from magnetar.server.tools.admin.admin_errors import RefusedError, UsageError
from magnetar.server.tools.admin.command_table import VALUE, Call, Command, Option
from magnetar.server.tools.admin.invocation import TEXT_FORMAT, Invocation
from magnetar.server.tools.admin.jackson_rules import gson
from magnetar.server.tools.admin.value_rules import INT_MAX, whole_number

DEFAULT_PLACE = {"tenant": "public", "namespace": "default"}
WIDTH = 80
TENANT = Option("--tenant", "the tenant; public unless it is given")
NAMESPACE = Option("--namespace", "the namespace; default unless it is given")
NAME = Option("--name", "the name")
FQFN = Option("--fqfn", "tenant/namespace/name in one")
_INSTANCE = Option("--instance-id", "only this instance")


class Kind(NamedTuple):
    """One of the three groups. `path` is that of the REST interface, `what` a word for one, `own` the options that name
    one, and `code` an example of the options that say what is run."""

    group: str
    path: str
    what: str
    own: tuple[Option, ...]
    deleted: str
    code: str


FUNCTIONS = Kind(
    "functions",
    "/admin/v3/functions",
    "function",
    (FQFN, TENANT, NAMESPACE, NAME),
    "Deleted successfully",
    "--jar my.jar --classname org.example.F --inputs my-topic",
)
SOURCES = Kind(
    "sources", "/admin/v3/source", "source", (TENANT, NAMESPACE, NAME), "Delete source successfully", "--archive my.nar"
)
SINKS = Kind(
    "sinks", "/admin/v3/sink", "sink", (TENANT, NAMESPACE, NAME), "Deleted successfully", "--archive my.nar --inputs t"
)
EXAMPLE = "--tenant my-tenant --namespace my-namespace --name my-"


def settle_place(invocation: Invocation, kind: Kind) -> None:
    """Fills in where the function is. Raises UsageError when its name is missing or given twice."""
    values = invocation.values
    whole = values.get("fqfn")
    if whole is not None:
        if any(values[key] is not None for key in ("tenant", "namespace", "name")):
            raise UsageError(
                "You must specify either a Fully Qualified Function Name (FQFN) or tenant, namespace, and function name"
            )
        parts = whole.split("/")
        if len(parts) != 3:
            raise UsageError("Fully qualified function names (FQFNs) must be of the form tenant/namespace/name")
        values["tenant"], values["namespace"], values["name"] = parts
    settle_namespace(invocation)
    if values["name"] is None:
        more = " or a Fully Qualified Function Name (FQFN)" if kind is FUNCTIONS else ""
        raise UsageError(f"You must specify a name for the {kind.what}{more}")


def settle_namespace(invocation: Invocation) -> None:
    for key, value in DEFAULT_PLACE.items():
        if invocation[key] is None:
            invocation.values[key] = value


def place_of(kind: Kind) -> str:
    return f"{kind.path}/{{tenant}}/{{namespace}}/{{name}}"


def _instance_of(invocation: Invocation) -> str:
    text = invocation["instance-id"]
    if text is None:
        return ""
    try:
        whole_number(text, INT_MAX, "")
    except ValueError:
        raise UsageError("instance-id must be a number") from None
    return "/{instance-id}"


def _changer(kind: Kind, verb: str, said: str) -> Callable[[Invocation], None]:
    def run(invocation: Invocation) -> None:
        settle_place(invocation, kind)
        invocation.call(Call("POST", f"{place_of(kind)}{_instance_of(invocation)}/{verb}"))
        invocation.say(said)

    return run


def _shower(kind: Kind, ending: str) -> Callable[[Invocation], None]:
    def run(invocation: Invocation) -> None:
        settle_place(invocation, kind)
        invocation.show(invocation.get(f"{place_of(kind)}{_instance_of(invocation)}/{ending}"))

    return run


def _getter(kind: Kind) -> Callable[[Invocation], None]:
    def run(invocation: Invocation) -> None:
        settle_place(invocation, kind)
        show_gson(invocation, invocation.get(place_of(kind)))

    return run


def show_gson(invocation: Invocation, value: object) -> None:
    if invocation.form != TEXT_FORMAT:
        invocation.show(value)
    else:
        invocation.say(gson(value, "  "))


def _deleter(kind: Kind) -> Callable[[Invocation], None]:
    def run(invocation: Invocation) -> None:
        settle_place(invocation, kind)
        invocation.call(Call("DELETE", place_of(kind)))
        invocation.say(kind.deleted)

    return run


def show_built_in(path: str, class_field: str) -> Callable[[Invocation], None]:
    """Returns an action that lists what a worker has built in: name, description, and a line between them."""

    def run(invocation: Invocation) -> None:
        import textwrap

        found = [each for each in invocation.get(path) or () if each.get(class_field)]
        if invocation.form != TEXT_FORMAT:
            invocation.show(found)
            return
        for each in found:
            invocation.say(each["name"])
            invocation.say("\n".join(textwrap.wrap(each.get("description") or "", WIDTH)))
            invocation.say("-" * 40)

    return run


def _local_run(kind: Kind) -> Callable[[Invocation], None]:
    def run(_: Invocation) -> None:
        raise RefusedError(
            f"{kind.group} localrun runs a {kind.what} inside Java's tool: use Apache's pulsar-admin for it."
        )

    return run


def common_commands(kind: Kind) -> tuple[Command, ...]:
    example = (f"{EXAMPLE}{kind.what}",)
    with_instance = (*kind.own, _INSTANCE)
    return (
        Command("get", f"Shows a {kind.what}.", _getter(kind), (), kind.own, VALUE, examples=example),
        Command(
            "status",
            f"Shows what a {kind.what} is doing.",
            _shower(kind, "status"),
            (),
            with_instance,
            VALUE,
            examples=example,
            aliases=("getstatus",),
        ),
        Command("delete", f"Deletes a {kind.what}.", _deleter(kind), (), kind.own, VALUE, examples=example),
        *(
            Command(
                verb,
                f"{summary} a {kind.what}.",
                _changer(kind, verb, said),
                (),
                with_instance,
                VALUE,
                examples=example,
            )
            for verb, summary, said in (
                ("restart", "Restarts", "Restarted successfully"),
                ("stop", "Stops", "Stopped successfully"),
                ("start", "Starts", "Started successfully"),
            )
        ),
    )


def stats_command(kind: Kind) -> Command:
    return Command(
        "stats",
        f"Shows the statistics of a {kind.what}.",
        _shower(kind, "stats"),
        (),
        (*kind.own, _INSTANCE),
        VALUE,
        examples=(f"{EXAMPLE}{kind.what}",),
    )


def described_commands(
    kind: Kind, create: tuple[Option, ...], update: tuple[Option, ...], local: tuple[Option, ...]
) -> tuple[Command, ...]:
    """Returns the rows of the commands that describe a function or connector with all its options."""
    rows = (
        ("create", "Creates", _sender(kind, update=False), create),
        ("update", "Changes", _sender(kind, update=True), update),
        ("localrun", "Runs locally", _local_run(kind), local),
    )
    example = f"{EXAMPLE}{kind.what} {kind.code}"
    return tuple(
        Command(verb, f"{summary} a {kind.what}.", action, (), options, VALUE, examples=(example,))
        for verb, summary, action, options in rows
    )


def _sender(kind: Kind, *, update: bool) -> Callable[[Invocation], None]:
    def run(invocation: Invocation) -> None:
        from magnetar.server.tools.admin import component_steps

        senders = {
            "function": component_steps.send_function,
            "source": component_steps.send_source,
            "sink": component_steps.send_sink,
        }
        senders[kind.what](invocation, update=update)

    return run


def connector_commands(
    kind: Kind, create: tuple[Option, ...], update: tuple[Option, ...], local: tuple[Option, ...]
) -> tuple[Command, ...]:
    """Returns all rows of `sources` or `sinks`."""

    def run_list(invocation: Invocation) -> None:
        settle_namespace(invocation)
        show_gson(invocation, invocation.get(kind.path + "/{tenant}/{namespace}"))

    return (
        *common_commands(kind),
        *described_commands(kind, create, update, local),
        Command(
            "list",
            f"Lists the {kind.group} of a namespace.",
            run_list,
            (),
            (TENANT, NAMESPACE),
            VALUE,
            examples=("--tenant my-tenant --namespace my-namespace",),
        ),
        Command(
            f"available-{kind.group}",
            f"Lists the built-in connectors that are {kind.group}.",
            show_built_in(f"{kind.path}/builtin{kind.group}", f"{kind.what}Class"),
            output=VALUE,
            examples=("",),
        ),
        Command(
            "reload",
            "Lets the workers look for built-in connectors again.",
            Call("POST", f"{kind.path}/reloadBuiltIn{kind.group.capitalize()}"),
            examples=("",),
        ),
    )
