"""Makes the commands get-, set- and remove- of a policy from one row."""

from typing import NamedTuple

from magnetar.server.tools.admin.command_table import (
    FLAG,
    MARK,
    NOTHING,
    VALUE,
    Argument,
    Body,
    Call,
    Command,
    Option,
    Query,
)

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
    get_options: tuple[Option, ...] = ()
    remove_options: tuple[Option, ...] = ()
    output: str = VALUE
    order: tuple[str, ...] = ()
    set_method: str = "POST"
    remove_method: str = "DELETE"
    verbs: tuple[str, ...] = ("get", "set", "remove")
    get_action: object = None
    names: tuple[str, str, str] = ("", "", "")
    """The names of the three commands when they are not made of the policy's name."""


def commands_of_policy(
    policy: Policy, argument: Argument, place: str, *, everywhere: bool = False, hidden: bool = False
) -> tuple[Command, ...]:
    """Returns the commands of a policy. `place` is an example of the argument. `everywhere` adds --global."""
    shared = (GLOBAL,) if everywhere else ()
    common = _GLOBAL_QUERY if everywhere else ()
    path = f"{{{argument.key}}}/{policy.path}"
    applied = (policy.applied,) if policy.applied else ()
    made = {
        "get": (
            "Shows",
            policy.get_action or Call("GET", path, common + (_APPLIED_QUERY if applied else policy.get_query)),
            (*applied, *policy.get_options, *shared),
            policy.output,
            "",
        ),
        "set": (
            "Sets",
            Call(policy.set_method, path, common + policy.set_query, policy.body),
            (*policy.options, *shared),
            NOTHING,
            policy.example,
        ),
        "remove": (
            "Removes",
            Call(policy.remove_method, path, common + policy.remove_query),
            (*policy.remove_options, *shared),
            NOTHING,
            "",
        ),
    }
    names = dict(zip(made, policy.names, strict=True))
    return tuple(
        Command(
            name=names[verb] or f"{verb}-{policy.name}",
            summary=f"{made[verb][0]} {policy.what}.",
            action=made[verb][1],  # type: ignore[arg-type]
            arguments=(argument,),
            options=made[verb][2],
            output=made[verb][3],
            order=policy.order if verb == "get" else (),
            examples=(f"{place} {made[verb][4]}".strip(),),
            hidden=hidden,
        )
        for verb in policy.verbs
    )
