"""The completion script for bash, run by bash with a program in the place of `magnetar`.

`compat_tests/admin/test_shells.py` runs the scripts for zsh and fish, which few machines have.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

from compat_tests.unavailable import unavailable
from magnetar.server.tools.admin.completion_scripts import SCRIPTS

STUB = """\
#!/bin/sh
echo "$#:$*" >> "$ASKED"
case "$*" in
*words*-s*) printf 'q $(touch x)\\n' ;;
*) printf 'persistent://a/b/x\\npersistent://a/b/y\\n' ;;
esac
"""


@pytest.mark.process
@pytest.mark.parametrize(
    ("line", "asked", "offered"),
    [
        ("magnetar admin topics stats ", "7:completion words -- admin topics stats ", "persistent://a/b/x"),
        ("pulsar-admin topics st", "6:completion words -- admin topics st", "persistent://a/b/x"),
        ("pulsar-admin topics stats persistent://a/", "7:completion words -- admin topics stats persistent", "//a/b/x"),
        ("magnetar admin topics skip t -s q", "9:completion words -- admin topics skip t -s q", r"q\ \$\(touch\ x\)"),
        ("magnetar bookie --", "5:completion words -- bookie --", "persistent://a/b/x"),
        ("magnetar adm", "4:completion words -- adm", "persistent://a/b/x"),
    ],
)
def test_bash_asks_for_the_words_that_were_typed(line: str, asked: str, offered: str, tmp_path: Path) -> None:
    stub = tmp_path / "magnetar"
    stub.write_text(STUB)
    stub.chmod(0o755)
    script = (
        f"{SCRIPTS['bash']}\nCOMP_LINE='{line}'; COMP_POINT=${{#COMP_LINE}}\n"
        'COMPREPLY=(); _magnetar; echo "${COMPREPLY[0]}"'
    )
    log = tmp_path / "asked"
    bash = shutil.which("bash") or unavailable("needs bash")
    done = subprocess.run(
        [bash, "--norc", "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "ASKED": str(log)},
    )
    assert done.stdout.strip() == offered
    assert (log.read_text() if log.exists() else "").startswith(asked)


def test_there_is_a_script_for_each_shell() -> None:
    assert set(SCRIPTS) == {"bash", "zsh", "fish"}
    assert all("magnetar completion words" in script for script in SCRIPTS.values())
