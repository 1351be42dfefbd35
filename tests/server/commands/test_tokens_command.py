"""`magnetar tokens` makes tokens that the server accepts, and reads those that Apache's tool makes."""

import base64
import json
import stat
from pathlib import Path

import jwt
import pytest

from magnetar.server.commands.main import main
from magnetar.server.commands.tokens import PAIR_ALGORITHMS, SECRET_ALGORITHMS
from magnetar.server.security.security_errors import RejectedCredentialsError
from magnetar.server.security.token_provider import (
    EC_ALGORITHMS,
    HMAC_KEY_BYTES,
    RSA_ALGORITHMS,
    TokenVerifier,
    load_public_key,
)

APACHE_SECRET = "0f8aBL1kOGpuFGBTa4P8tjB5bRtGMeHTBjLAqdhtqaM="
"""`pulsar tokens create-secret-key --base64` of Apache Pulsar 4.0.7 prints keys like this one."""


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["tokens", *arguments]) == 0, capsys.readouterr().err
    return capsys.readouterr().out.strip()


def fault(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["tokens", *arguments]) == 1
    return capsys.readouterr().err


def test_the_algorithms_that_can_be_chosen_are_those_that_the_server_knows() -> None:
    assert tuple(HMAC_KEY_BYTES) == SECRET_ALGORITHMS
    assert (*RSA_ALGORITHMS, *EC_ALGORITHMS) == PAIR_ALGORITHMS


@pytest.mark.parametrize(("algorithm", "size"), [("HS256", 32), ("HS384", 48), ("HS512", 64)])
def test_a_secret_key_signs_with_the_algorithm_it_was_made_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], algorithm: str, size: int
) -> None:
    key = tmp_path / "secret.key"
    run(capsys, "create-secret-key", "-a", algorithm, "--output", str(key))
    assert len(key.read_bytes()) == size
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    token = run(capsys, "create", "--secret-key", f"file://{key}", "--subject", "alice", "-hs", "kid=k1")
    assert jwt.get_unverified_header(token) == {"alg": algorithm, "kid": "k1"}
    assert TokenVerifier(key.read_bytes(), (algorithm,)).verify(token, 0).role == "alice"
    assert json.loads(run(capsys, "validate", "-sk", str(key), token)) == {"sub": "alice"}


def test_a_key_that_is_there_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key, other = tmp_path / "secret.key", tmp_path / "other.key"
    key.write_bytes(b"in use")
    for arguments in (
        ("create-secret-key", "--output", str(key)),
        ("create-key-pair", "--output-private-key", str(key), "--output-public-key", str(other)),
        ("create-key-pair", "--output-private-key", str(other), "--output-public-key", str(key)),
    ):
        assert f"{key} is there already" in fault(capsys, *arguments)
        assert key.read_bytes() == b"in use"
        assert not other.exists()


def test_a_secret_key_in_base64_goes_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(base64.b64decode(run(capsys, "create-secret-key", "--base64"))) == 32


@pytest.mark.parametrize("algorithm", ["RS256", "PS512", "ES256", "ES512"])
def test_a_key_pair_signs_and_validates(tmp_path: Path, capsys: pytest.CaptureFixture[str], algorithm: str) -> None:
    private, public = tmp_path / "private.key", tmp_path / "public.key"
    pair = ("--output-private-key", str(private), "--output-public-key", str(public))
    run(capsys, "create-key-pair", "-a", algorithm, *pair)
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    token = run(capsys, "create", "-a", algorithm, "--private-key", str(private), "-s", "bob", "-e", "1h")
    claims = json.loads(run(capsys, "validate", "-a", algorithm, "--public-key", str(public), token))
    assert claims["sub"] == "bob"
    verifier = TokenVerifier(*load_public_key(public.read_bytes(), algorithm, "key"))
    assert verifier.verify(token, claims["exp"] - 1).expires_at_s == claims["exp"]
    with pytest.raises(RejectedCredentialsError, match="expired"):
        verifier.verify(token, claims["exp"] + 1)


def test_show_tells_header_and_claims_without_a_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "token"
    file.write_text(run(capsys, "create", "-sk", f"data:;base64,{APACHE_SECRET}", "-s", "alice") + "\n")
    assert run(capsys, "show", "-f", str(file)).splitlines() == ['{"alg": "HS256"}', "---", '{"sub": "alice"}']


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("create", "-s", "a"), "Either --secret-key or --private-key needs to be passed"),
        (("create", "-s", "a", "-sk", "x", "-pk", "y"), "Only one of --secret-key and --private-key"),
        (("create", "-s", "a", "-sk", APACHE_SECRET, "-e", "soon"), "'soon' is no time"),
        (("create", "-s", "a", "-sk", "/nowhere/my.key"), "neither an existing file nor base64"),
        (("create", "-s", "a", "-sk", APACHE_SECRET, "-hs", "nonsense"), "'nonsense' is not KEY=VALUE"),
        (("create", "-s", "a", "-pk", APACHE_SECRET), "not a private key"),
        (("validate", "-sk", APACHE_SECRET, "a.b.c"), "not valid"),
        (("show", "abc"), "not a token"),
        (("show", "-f", "/nowhere/token"), "/nowhere/token: No such file"),
        (("create-secret-key", "-o", "/nowhere/at/all"), "/nowhere/at/all: No such file"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    error = fault(capsys, *arguments)
    assert said in error
    assert error.count("\n") == 1
    assert APACHE_SECRET not in error


def test_the_wrong_key_does_not_validate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    token = run(capsys, "create", "-sk", APACHE_SECRET, "-s", "alice")
    other = base64.b64encode(bytes(32)).decode()
    assert "Signature verification failed" in fault(capsys, "validate", "-sk", other, token)


def test_help_shows_examples(capsys: pytest.CaptureFixture[str]) -> None:
    for action in ((), ("create",), ("create-secret-key",), ("create-key-pair",), ("show",), ("validate",)):
        with pytest.raises(SystemExit) as ended:
            main(["tokens", *action, "--help"])
        assert ended.value.code == 0
        assert "example" in capsys.readouterr().out
