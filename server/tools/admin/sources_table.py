"""The rows of `sources`."""

from magnetar.server.tools.admin.component_rows import SOURCES, connector_commands
from magnetar.server.tools.admin.source_options import CREATE, LOCAL_RUN, UPDATE

COMMANDS = connector_commands(SOURCES, CREATE, UPDATE, LOCAL_RUN)
