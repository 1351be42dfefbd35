"""`magnetar tokens`: makes keys and tokens for the authentication method `token`, in the formats of `pulsar tokens`."""

import argparse
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from magnetar.server.commands.arguments import add_command

if TYPE_CHECKING:
    from collections.abc import Callable

    from magnetar.server.commands.arguments import Commands

    Work = Callable[[], object]

SECRET_ALGORITHMS = ("HS256", "HS384", "HS512")
PAIR_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")
"""The algorithms of `server/security/token_provider.py`. This module repeats them, because the import of that module
loads all of cryptography, for which `--help` need not wait."""

TOKEN_BYTES_MAX = 64 << 10

EXAMPLES = """\
examples:
  magnetar tokens create-secret-key --output my-secret.key
  magnetar tokens create --secret-key file:///path/to/my-secret.key --subject alice --expiry-time 30d
  magnetar tokens create-key-pair --output-private-key my-private.key --output-public-key my-public.key
  magnetar tokens create --private-key my-private.key --subject alice
  magnetar tokens show TOKEN
  magnetar tokens validate --secret-key my-secret.key --token-file alice.token

A server that takes such tokens:
  magnetar standalone --set authenticationEnabled=true --set tokenSecretKey=file:///path/to/my-secret.key \\
      --set authenticationProviders=org.apache.pulsar.broker.authentication.AuthenticationProviderToken

A key is given as a path, file:…, data:;base64,…, env:NAME, or as base64.
"""


def add_parser(commands: "Commands") -> None:
    tokens = add_command(
        commands,
        "tokens",
        summary="make and check keys and tokens for authentication",
        description="Makes and checks keys and JSON web tokens for the authentication method 'token'.",
        epilog=EXAMPLES,
    )
    actions = tokens.add_subparsers(dest="action", required=True, metavar="ACTION")
    _add_create_secret_key(actions)
    _add_create_key_pair(actions)
    _add_create(actions)
    _add_show(actions)
    _add_validate(actions)


def _add_action(actions: "Commands", name: str, text: str, example: str, *, more: str = "") -> argparse.ArgumentParser:
    """Adds and returns the parser of one action. `text` stands in the list of actions, and together with `more` in the
    action's own help. `example` holds the arguments that the help shows as an example."""
    epilog = f"example:\n  magnetar tokens {name} {example}"
    return add_command(actions, name, summary=text.lower(), description=f"{text}{more}.", epilog=epilog)


def _add_create_secret_key(actions: "Commands") -> None:
    parser = _add_action(actions, "create-secret-key", "Create a new secret key", "--base64 --output my-secret.key")
    parser.add_argument("-a", "--signature-algorithm", choices=SECRET_ALGORITHMS, default="HS256", metavar="ALGORITHM")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write the key there instead of stdout")
    parser.add_argument("-b", "--base64", action="store_true", help="encode the key in base64")
    parser.set_defaults(run=run_create_secret_key)


def _add_create_key_pair(actions: "Commands") -> None:
    parser = _add_action(
        actions,
        "create-key-pair",
        "Create a new pair of keys, private and public",
        "--output-private-key a.key --output-public-key b.key",
    )
    parser.add_argument("-a", "--signature-algorithm", choices=PAIR_ALGORITHMS, default="RS256", metavar="ALGORITHM")
    parser.add_argument("--output-private-key", type=Path, metavar="FILE", required=True)
    parser.add_argument("--output-public-key", type=Path, metavar="FILE", required=True)
    parser.set_defaults(run=run_create_key_pair)


def _add_create(actions: "Commands") -> None:
    parser = _add_action(
        actions,
        "create",
        "Create a new token",
        "--secret-key my-secret.key --subject alice --expiry-time 1h",
        more="; it is printed on stdout",
    )
    parser.add_argument("-s", "--subject", required=True, help="the role of who presents the token")
    parser.add_argument(
        "-e", "--expiry-time", metavar="TIME", help="from now: 1h, 3d, 10y (m = minutes); default: none"
    )
    parser.add_argument("-sk", "--secret-key", metavar="KEY", help="sign with this secret key")
    parser.add_argument("-pk", "--private-key", metavar="KEY", help="sign with this private key")
    parser.add_argument(
        "-a", "--signature-algorithm", choices=PAIR_ALGORITHMS, default="RS256", help="of the private key"
    )
    parser.add_argument("-hs", "--headers", action="append", default=[], metavar="KEY=VALUE", help="more headers")
    parser.set_defaults(run=run_create)


def _add_show(actions: "Commands") -> None:
    parser = _add_action(
        actions, "show", "Show the content of a token", "--token-file alice.token", more=", whoever signed it"
    )
    _add_token_options(parser)
    parser.set_defaults(run=run_show)


def _add_validate(actions: "Commands") -> None:
    parser = _add_action(
        actions,
        "validate",
        "Validate a token against a key",
        "--secret-key my-secret.key --stdin < alice.token",
        more="; its claims are printed on stdout",
    )
    parser.add_argument("-sk", "--secret-key", metavar="KEY", help="the secret key that signed it")
    parser.add_argument("-pk", "--public-key", metavar="KEY", help="the public half of the key that signed it")
    parser.add_argument(
        "-a", "--signature-algorithm", choices=PAIR_ALGORITHMS, default="RS256", help="of the public key"
    )
    _add_token_options(parser)
    parser.set_defaults(run=run_validate)


def _add_token_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("token", nargs="?", metavar="TOKEN")
    parser.add_argument("-i", "--stdin", action="store_true", help="read the token from standard input")
    parser.add_argument("-f", "--token-file", type=Path, metavar="FILE", help="read the token from a file")


class _UsageError(Exception):
    """The arguments contradict each other, or a file that they name cannot be used. The user is shown the error's
    text."""


def run_create_secret_key(arguments: argparse.Namespace) -> int:
    import base64

    from magnetar.server.security.token_maker import make_secret_key

    key = make_secret_key(arguments.signature_algorithm)
    if arguments.base64:
        key = base64.b64encode(key)
    if arguments.output is not None:
        return _told(lambda: _write_private(arguments.output, key))
    sys.stdout.buffer.write(key)
    sys.stdout.flush()
    return 0


def run_create_key_pair(arguments: argparse.Namespace) -> int:
    from magnetar.server.security.token_maker import make_key_pair

    private, public = make_key_pair(arguments.signature_algorithm)

    def write() -> None:
        _must_be_new(arguments.output_public_key)
        _write_private(arguments.output_private_key, private)
        arguments.output_public_key.write_bytes(public)

    return _told(write)


def run_create(arguments: argparse.Namespace) -> int:
    return _told(lambda: print(_create(arguments)))


def _create(arguments: argparse.Namespace) -> str:
    from magnetar.server.security.key_locations import read_content
    from magnetar.server.security.token_maker import load_private_key, make_token, relative_seconds, strongest_hmac

    _exactly_one(arguments.secret_key, arguments.private_key, "--secret-key", "--private-key")
    expires_at_s = None
    if arguments.expiry_time is not None:
        try:
            expires_at_s = int(time.time()) + relative_seconds(arguments.expiry_time)
        except ValueError:
            raise _UsageError(f"--expiry-time: '{arguments.expiry_time}' is no time such as 1h, 3d or 10y") from None
    headers = dict(_header(text) for text in arguments.headers)
    if arguments.secret_key is not None:
        key = read_content(arguments.secret_key, "--secret-key")
        algorithm = strongest_hmac(key, "--secret-key")
        return make_token(key, algorithm, arguments.subject, expires_at_s=expires_at_s, headers=headers)
    algorithm = arguments.signature_algorithm
    private = load_private_key(read_content(arguments.private_key, "--private-key"), algorithm, "--private-key")
    return make_token(private, algorithm, arguments.subject, expires_at_s=expires_at_s, headers=headers)


def run_show(arguments: argparse.Namespace) -> int:
    import json

    from magnetar.server.security.token_provider import unverified

    def show() -> None:
        header, claims = unverified(_token_of(arguments))
        print(json.dumps(header), "---", json.dumps(claims), sep="\n")

    return _told(show)


def run_validate(arguments: argparse.Namespace) -> int:
    import json

    def validate() -> None:
        from magnetar.server.security.key_locations import read_content
        from magnetar.server.security.token_provider import TokenVerifier, hmac_algorithms, load_public_key

        _exactly_one(arguments.secret_key, arguments.public_key, "--secret-key", "--public-key")
        token = _token_of(arguments)
        if arguments.secret_key is not None:
            secret = read_content(arguments.secret_key, "--secret-key")
            verifier = TokenVerifier(secret, hmac_algorithms(secret, "--secret-key"))
        else:
            content = read_content(arguments.public_key, "--public-key")
            verifier = TokenVerifier(*load_public_key(content, arguments.signature_algorithm, "--public-key"))
        verifier.verify(token, time.time())
        print(json.dumps(verifier.claims(token)))

    return _told(validate)


def _told(work: "Work") -> int:
    """Runs `work` and returns the exit code: 0 after success, 1 after a fault, which is printed as one sentence."""
    from magnetar.server.security.security_errors import RejectedCredentialsError, SecurityConfigError

    try:
        work()
    except (_UsageError, SecurityConfigError, RejectedCredentialsError) as error:
        print(f"magnetar tokens: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"magnetar tokens: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    return 0


def _exactly_one(first: str | None, second: str | None, first_name: str, second_name: str) -> None:
    if first is None and second is None:
        raise _UsageError(f"Either {first_name} or {second_name} needs to be passed")
    if first is not None and second is not None:
        raise _UsageError(f"Only one of {first_name} and {second_name} needs to be passed")


def _token_of(arguments: argparse.Namespace) -> str:
    if arguments.token is not None:
        return str(arguments.token)
    if arguments.stdin:
        return sys.stdin.read(TOKEN_BYTES_MAX).strip()
    if arguments.token_file is not None:
        path = Path(str(arguments.token_file).removeprefix("file://").removeprefix("file:"))
        return path.read_bytes()[:TOKEN_BYTES_MAX].decode("utf-8", "replace").strip()
    token = os.environ.get("TOKEN")
    if not token:
        raise _UsageError(
            "Token needs to be either passed as an argument or through `--stdin`, `--token-file` or "
            "by the `TOKEN` environment variable"
        )
    return token.strip()


def _header(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise _UsageError(f"--headers: '{text}' is not KEY=VALUE")
    return name, value


def _must_be_new(path: Path) -> None:
    """Raises _UsageError when the file exists: a new key in its place would make every token of the old key
    worthless."""
    if path.exists():
        raise _UsageError(f"{path} is there already; it was left as it is: remove it first, or choose another name")


def _write_private(path: Path, content: bytes) -> None:
    """Writes a new file that only its owner can read. Raises _UsageError when the file exists."""
    _must_be_new(path)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
