"""The rows of `resource-quotas`."""

from typing import Any

from magnetar.server.tools.admin.admin_errors import UsageError
from magnetar.server.tools.admin.command_table import FLAG, LONG, VALUE, Call, Command, Option, Values
from magnetar.server.tools.admin.invocation import Invocation
from magnetar.server.tools.admin.name_rules import parse_namespace

_NAMESPACE = Option("-n --namespace", "tenant/namespace; together with --bundle")
_BUNDLE = Option("-b --bundle", "the bundle, as 0x00000000_0xffffffff")
_RATES = (
    Option("-mi --msgRateIn", "messages a second that come in", LONG, required=True),
    Option("-mo --msgRateOut", "messages a second that go out", LONG, required=True),
    Option("-bi --bandwidthIn", "bytes a second that come in", LONG, required=True),
    Option("-bo --bandwidthOut", "bytes a second that go out", LONG, required=True),
    Option("-mem --memory", "megabytes", LONG, required=True),
    Option("-d --dynamic", "let the broker adjust it", FLAG),
)
_DEFAULT = "/admin/v2/resource-quotas"


def _path(invocation: Invocation) -> str:
    namespace, bundle = invocation["namespace"], invocation["bundle"]
    if namespace is None and bundle is None:
        return _DEFAULT
    if namespace is None or bundle is None:
        raise UsageError("namespace and bundle must be provided together.")
    try:
        return f"{_DEFAULT}/{parse_namespace(namespace).text}/{{bundle}}"
    except ValueError as error:
        raise UsageError(str(error)) from None


def _quota(values: Values) -> dict[str, Any]:
    numbers = ("msgRateIn", "msgRateOut", "bandwidthIn", "bandwidthOut", "memory")
    return {**{name: float(values[name]) for name in numbers}, "dynamic": values["dynamic"]}


def _get(invocation: Invocation) -> None:
    invocation.show(invocation.get(_path(invocation)))


def _set(invocation: Invocation) -> None:
    invocation.call(Call("POST", _path(invocation), body=_quota))


def _reset(invocation: Invocation) -> None:
    invocation.call(Call("DELETE", _path(invocation)))


_EXAMPLE = "-n my-tenant/my-namespace -b 0x00000000_0xffffffff"
COMMANDS = (
    Command("get", "Shows a quota.", _get, (), (_NAMESPACE, _BUNDLE), VALUE, examples=("", _EXAMPLE)),
    Command(
        "set",
        "Sets a quota.",
        _set,
        (),
        (_NAMESPACE, _BUNDLE, *_RATES),
        examples=(f"{_EXAMPLE} -mi 40 -mo 120 -bi 100000 -bo 300000 -mem 80",),
    ),
    Command(
        "reset-namespace-bundle-quota",
        "Gives a bundle the default quota again.",
        _reset,
        (),
        (_NAMESPACE._replace(required=True), _BUNDLE._replace(required=True)),
        examples=(_EXAMPLE,),
    ),
)
