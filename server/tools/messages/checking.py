"""Runs a check: whatever happens, its outcome is printed in the format that was asked for, and is the exit code.

A fault of the cluster is critical. What keeps the check from looking, such as missing rights, is unknown.
"""

import sys
from collections.abc import Callable

from magnetar.server.tools.connection.connection_errors import AdminCallError, ConnectionSettingsError
from magnetar.server.tools.messages.check_format_rules import FORMATS
from magnetar.server.tools.messages.check_rules import Outcome, State
from magnetar.server.tools.messages.tool_errors import ToolError, UnreachableError

REFUSALS = (401, 403)


def run_check(outcome: Outcome, form: str, work: Callable[[Outcome], None]) -> int:
    """Lets `work` add to the outcome, prints it, and returns the exit code of its state."""
    try:
        work(outcome)
    except AdminCallError as error:
        outcome.fail(State.UNKNOWN if error.status in REFUSALS else State.CRITICAL, str(error))
    except UnreachableError as error:
        outcome.fail(State.CRITICAL, str(error))
    except (ToolError, ConnectionSettingsError) as error:
        outcome.fail(State.UNKNOWN, str(error))
    except Exception as error:
        # A traceback would end with the exit code 1, which monitoring systems take for a warning.
        outcome.fail(State.UNKNOWN, f"the check itself failed: {type(error).__name__}: {error}")
    sys.stdout.write(FORMATS[form](outcome))
    sys.stdout.flush()
    return int(outcome.state)
