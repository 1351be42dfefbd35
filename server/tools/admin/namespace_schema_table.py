"""The rows of `namespaces` about schemas."""

from magnetar.server.tools.admin.admin_errors import UsageError
from magnetar.server.tools.admin.body_rules import enabled
from magnetar.server.tools.admin.command_table import FLAG, NAMESPACE_ARGUMENT, Option, Values
from magnetar.server.tools.admin.namespace_steps import show_upper
from magnetar.server.tools.admin.policy_rows import APPLIED, Policy, commands_of_policy
from magnetar.server.tools.admin.schema_strategies import AUTO_UPDATE_STRATEGIES, SCHEMA_STRATEGIES
from magnetar.server.tools.admin.shared_policy_options import ENABLE_DISABLE


def _auto_update(values: Values) -> str:
    if values["disabled"]:
        return "AutoUpdateDisabled"
    strategy = AUTO_UPDATE_STRATEGIES.get((values["compatibility"] or "").upper())
    if strategy is None:
        raise UsageError("Either --compatibility or --disabled must be specified")
    return strategy


def _compatibility(values: Values) -> str:
    strategy = (values["compatibility"] or "").upper()
    if strategy not in SCHEMA_STRATEGIES:
        possible = ", ".join(SCHEMA_STRATEGIES)
        raise UsageError(f"Illegal schema compatibility strategy {strategy}. Possible values: [{possible}]")
    return strategy


_POLICIES = (
    Policy(
        "schema-autoupdate-strategy",
        "schemaAutoUpdateCompatibilityStrategy",
        "how a producer's new schema must fit the earlier ones",
        (
            Option("-c --compatibility", "FULL, BACKWARD, FORWARD or NONE"),
            Option("-d --disabled", "producers cannot add schemas", FLAG),
        ),
        _auto_update,
        "-c BACKWARD",
        get_action=show_upper("{namespace}/schemaAutoUpdateCompatibilityStrategy"),
        set_method="PUT",
        verbs=("get", "set"),
    ),
    Policy(
        "schema-compatibility-strategy",
        "schemaCompatibilityStrategy",
        "how a new schema must fit the earlier ones",
        (Option("-c --compatibility", "one of " + ", ".join(SCHEMA_STRATEGIES)),),
        _compatibility,
        "-c BACKWARD",
        get_action=show_upper("{namespace}/schemaCompatibilityStrategy"),
        set_method="PUT",
        verbs=("get", "set"),
    ),
    Policy(
        "is-allow-auto-update-schema",
        "isAllowAutoUpdateSchema",
        "whether producers may add schemas",
        ENABLE_DISABLE,
        enabled,
        "--enable",
        verbs=("get", "set"),
    ),
    Policy(
        "schema-validation-enforce",
        "schemaValidationEnforced",
        "whether producers without a schema are refused",
        ENABLE_DISABLE,
        enabled,
        "--enable",
        APPLIED,
        verbs=("get", "set"),
    ),
)
COMMANDS = tuple(
    command
    for policy in _POLICIES
    for command in commands_of_policy(policy, NAMESPACE_ARGUMENT, "my-tenant/my-namespace")
)
