"""The namespaces of a run: the program is started again inside them, and the kernel ends them with it."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence

INSIDE_VARIABLE = "MAGNETAR_CHAOS_INSIDE"
KINDS = ("--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
TRIAL_SECONDS = 60
TUN = "/dev/net/tun"


def is_inside() -> bool:
    """Returns whether this program runs in namespaces of its own."""
    return bool(os.environ.get(INSIDE_VARIABLE))


def missing() -> str:
    """Returns why this machine gives no namespaces, or an empty text when it gives them."""
    for tool in ("unshare", "nsenter", "setpriv"):
        if shutil.which(tool) is None:
            return f"there is no program {tool} (Debian: util-linux)"
    if not os.access(TUN, os.R_OK | os.W_OK):
        return f"{TUN} cannot be opened"
    trial = subprocess.run([*unshare(), "true"], capture_output=True, text=True, timeout=TRIAL_SECONDS)
    return "" if trial.returncode == 0 else f"unshare: {trial.stderr.strip()}"


def unshare() -> list[str]:
    """Returns the words that precede a command to run it in namespaces of its own. Who is not root becomes root in a
    namespace of users."""
    users = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    return ["unshare", *users, *KINDS]


def command(arguments: Sequence[str]) -> list[str]:
    """Returns the command line that runs chaos in namespaces."""
    return [*unshare(), sys.executable, "-m", "compat_tests.chaos", *arguments]


def bound_to_parent() -> list[str]:
    """Returns the words that precede a command to kill it when the thread that started it ends."""
    return ["setpriv", "--pdeathsig", "KILL", "--"]
