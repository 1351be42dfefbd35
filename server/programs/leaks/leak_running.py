"""Runs one verb of `magnetar leaks`, and reports failures by one sentence and an exit code."""

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

from magnetar.server.leaks.leak_errors import LeakRefusal
from magnetar.server.process.data_folder_lock import AlreadyInUseError
from magnetar.server.process.log_lines import log_to_stderr
from magnetar.server.process.private_files import make_files_private
from magnetar.server.process.running import loop_factory, sentence
from magnetar.server.programs.bk.verb_running import FAULTS, INTERRUPTED, Tool
from magnetar.server.programs.leaks import leak_verbs
from magnetar.server.programs.leaks.leak_site import open_site
from magnetar.server.programs.leaks.remote_leaks import run_remotely
from magnetar.server.tools.connection.connection_errors import AdminCallError, ConnectionSettingsError
from magnetar.storage.leaks.backup_rules import BackupDamaged
from magnetar.storage.leaks.finder import NotPulsar, Site

FAILED = 3
"""The exit code for a look that could not be taken; 1 means that something was found."""

REMOTE_FAULTS = (AdminCallError, ConnectionSettingsError)

VERBS: dict[str, Callable[[Tool, argparse.Namespace, Site], Awaitable[int]]] = {
    "find": leak_verbs.run_find,
    "explain": leak_verbs.run_explain,
    "backup": leak_verbs.run_backup,
    "remove": leak_verbs.run_remove,
    "restore": leak_verbs.run_restore,
}


def run_leaks(arguments: argparse.Namespace) -> int:
    """Runs the verb that the command line names and returns the exit code."""
    log_to_stderr(arguments.log_level)
    make_files_private()  # A backup holds messages and passwords of ledgers.

    async def work() -> int:
        async with AsyncExitStack() as stack:
            tool = Tool(arguments, stack)
            site = await open_site(tool, arguments, stack)
            return await VERBS[arguments.verb](tool, arguments, site)

    def run() -> int:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            return runner.run(work())

    return _told(arguments.verb, run)


def run_leaks_remotely(arguments: argparse.Namespace, flags: dict[str, str]) -> int:
    """Runs the verb on the server that the connection's flags name, and returns the exit code."""
    return _told(arguments.verb, lambda: run_remotely(arguments, flags))


def _told(verb: str, run: Callable[[], int]) -> int:
    try:
        return run()
    except BrokenPipeError:
        raise  # an OSError whose end `magnetar.launcher` knows
    except (*FAULTS, *REMOTE_FAULTS, AlreadyInUseError, BackupDamaged, LeakRefusal, NotPulsar) as error:
        print(f"magnetar leaks {verb}: {sentence(error)}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
