"""The rows of `sinks`."""

from magnetar.server.tools.admin.component_rows import SINKS, connector_commands
from magnetar.server.tools.admin.sink_options import CREATE, LOCAL_RUN, UPDATE

COMMANDS = connector_commands(SINKS, CREATE, UPDATE, LOCAL_RUN)
