"""Makes the commands get-, set- and remove- of a policy from one row."""

from typing import TYPE_CHECKING, NamedTuple

from magnetar.server.tools.admin.command_table import (
    FLAG,
    MARK,
    VALUE,
    Argument,
    Body,
    Call,
    Command,
    Option,
    Query,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from magnetar.server.tools.admin.invocation import Invocation

APPLIED = Option("-ap --applied", "show what applies, from the topic, its namespace or the broker", FLAG)
GLOBAL = Option("-g --global", "the policy of the topic in all clusters, not in this one only", MARK)
_APPLIED_QUERY: Query = (("applied", "{applied}"),)
_GLOBAL_QUERY: Query = (("isGlobal", "{global}"),)


class Policy(NamedTuple):
    """A policy of topics or namespaces. `name` is that of the commands, `path` that of the REST interface, and `what`
    ends the sentences "Shows …", "Sets …", "Removes …". `options`, `body` and `example` are those of set-; the query
    parts go with the verb of their name."""

    name: str
    path: str
    what: str
    options: tuple[Option, ...] = ()
    body: Body = None
    example: str = ""
    applied: Option | None = None
    get_query: Query = ()
    set_query: Query = ()
    remove_query: Query = ()
    remove_options: tuple[Option, ...] = ()
    output: str = VALUE
    order: tuple[str, ...] = ()
    set_method: str = "POST"
    remove_method: str = "DELETE"
    verbs: tuple[str, ...] = ("get", "set", "remove")
    get_action: "Callable[[Invocation], None] | None" = None
    names: tuple[str, str, str] = ("", "", "")
    """The names of the three commands when they are not made of the policy's name."""


def commands_of_policy(
    policy: Policy, argument: Argument, place: str, *, everywhere: bool = False, hidden: bool = False
) -> tuple[Command, ...]:
    """Returns the commands of a policy. `place` is an example of the argument. `everywhere` adds --global."""
    path = f"{{{argument.key}}}/{policy.path}"
    shared_options = (GLOBAL,) if everywhere else ()
    shared_query = _GLOBAL_QUERY if everywhere else ()
    applied = (policy.applied,) if policy.applied else ()
    get = Command(
        policy.names[0] or f"get-{policy.name}",
        f"Shows {policy.what}.",
        policy.get_action or Call("GET", path, shared_query + (_APPLIED_QUERY if applied else policy.get_query)),
        options=(*applied, *shared_options),
        output=policy.output,
        order=policy.order,
        examples=(place,),
    )
    put = Command(
        policy.names[1] or f"set-{policy.name}",
        f"Sets {policy.what}.",
        Call(policy.set_method, path, shared_query + policy.set_query, policy.body),
        options=(*policy.options, *shared_options),
        examples=(f"{place} {policy.example}".strip(),),
    )
    remove = Command(
        policy.names[2] or f"remove-{policy.name}",
        f"Removes {policy.what}.",
        Call(policy.remove_method, path, shared_query + policy.remove_query),
        options=(*policy.remove_options, *shared_options),
        examples=(place,),
    )
    by_verb = {"get": get, "set": put, "remove": remove}
    return tuple(by_verb[verb]._replace(arguments=(argument,), hidden=hidden) for verb in policy.verbs)
