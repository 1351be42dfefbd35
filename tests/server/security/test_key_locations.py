"""The locations from which keys and password files are read."""

import base64
from pathlib import Path

import pytest

from magnetar.server.security.key_locations import read_content
from magnetar.server.security.security_errors import SecurityConfigError

KEY = bytes(range(40))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "my key.bin"
    path.write_bytes(KEY)
    return path


def test_every_form_gives_the_same_bytes(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoded = base64.b64encode(KEY).decode()
    monkeypatch.setenv("THE_KEY", f"data:;base64,{encoded}")
    percent = "".join(f"%{byte:02x}" for byte in KEY)
    for location in (
        str(file),
        f"file://{file}",
        f"file:{file}",
        f"file://{str(file).replace(' ', '%20')}",
        encoded,
        base64.urlsafe_b64encode(KEY).decode(),
        f"data:;base64,{encoded}",
        f"data:application/octet-stream;base64,{encoded}",
        f"data:,{percent}",
        "env:THE_KEY",
    ):
        assert read_content(location, "tokenSecretKey") == KEY, location


@pytest.mark.parametrize(
    ("location", "said"),
    [
        ("file:///nowhere/at/all", "/nowhere/at/all cannot be read: No such file"),
        ("env:NOT_SET_AT_ALL", "the environment variable NOT_SET_AT_ALL is not set"),
        ("data:;base64", "needs a comma"),
        ("data:;base64,", "there is nothing in it"),
        ("s3cr*t", "neither an existing file nor base64"),
    ],
)
def test_what_cannot_be_read_is_named_without_its_content(location: str, said: str) -> None:
    with pytest.raises(SecurityConfigError, match="tokenSecretKey") as caught:
        read_content(location, "tokenSecretKey")
    assert said in str(caught.value)
    assert "s3cr" not in str(caught.value)
