"""Runs a command beside a server, for test runners of any language."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType

from magnetar.testing.server_process import Server, ServerError

NO_SERVER, CANNOT_RUN, NOT_FOUND = 125, 126, 127
"""Exit codes when there was no exit code of the command, as those of `docker run` and `env`: the server did not start,
the command cannot be run, there is no such command."""

SERVICE_URL_VARIABLES = ("PULSAR_SERVICE_URL", "SPRING_PULSAR_CLIENT_SERVICE_URL", "MAGNETAR_SERVICE_URL")
ADMIN_URL_VARIABLES = ("PULSAR_ADMIN_URL", "SPRING_PULSAR_ADMIN_SERVICE_URL", "MAGNETAR_ADMIN_URL")
"""The environment variables of the command. The first of each is for tests that read it themselves, Spring Boot takes
the second for `spring.pulsar.client.service-url` and `spring.pulsar.admin.service-url` without any code, and the third
is for the commands of `magnetar`."""


def run_with_server(command: Sequence[str], settings: Mapping[str, str], log_file: Path | None) -> int:
    """Starts a server, runs the command, and returns the exit code for the shell. The server's log is copied to
    `log_file`; without one, its last lines are printed when the server does not start. Settings without effect are
    named on the standard error."""
    code = NO_SERVER
    try:
        with contextlib.closing(Server(settings)) as server:
            try:
                server.start()
                for warning in server.setting_warnings():
                    print(f"magnetar: {warning}", file=sys.stderr)
                environment = {**os.environ, **dict.fromkeys(SERVICE_URL_VARIABLES, server.service_url)}
                environment.update(dict.fromkeys(ADMIN_URL_VARIABLES, server.admin_url))
                code = _run(command, environment)
            finally:
                if log_file is not None:
                    _keep_log(server, log_file)
    except ServerError as error:
        print(f"magnetar: {error}", file=sys.stderr)
    return code


def _keep_log(server: Server, log_file: Path) -> None:
    if not server.log_size():
        return
    try:
        shutil.copyfile(server.log_path, log_file)
    except OSError as error:
        print(f"magnetar: --log-file {log_file}: {os.strerror(error.errno or 0)}", file=sys.stderr)


def _run(command: Sequence[str], environment: Mapping[str, str]) -> int:
    with _signals_kept() as signals:
        try:
            child = subprocess.Popen(command, env=environment)
        except FileNotFoundError:
            print(f"magnetar: {command[0]}: there is no such command", file=sys.stderr)
            return NOT_FOUND
        except OSError as error:
            print(f"magnetar: {command[0]}: {os.strerror(error.errno or 0)}", file=sys.stderr)
            return CANNOT_RUN
        signals.hand_to(child)
        code = child.wait()
    return 128 - code if code < 0 else code


class _Signals:
    """Keeps the signals that this process got until they can be handed to the command."""

    def __init__(self) -> None:
        self._kept: list[int] = []
        self._child: subprocess.Popen[bytes] | None = None

    def take(self, number: int, frame: FrameType | None) -> None:
        if self._child is None:
            self._kept.append(number)
        else:
            self._child.send_signal(number)

    def hand_to(self, child: "subprocess.Popen[bytes]") -> None:
        self._child = child
        for number in self._kept:
            child.send_signal(number)


@contextlib.contextmanager
def _signals_kept() -> Iterator[_Signals]:
    """Hands SIGTERM and SIGINT on to the command, which ends as it likes. A terminal sends Ctrl-C to the command by
    itself; two of them do no harm."""
    signals = _Signals()
    before = {number: signal.signal(number, signals.take) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
