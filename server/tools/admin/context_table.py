"""The rows of `context`, which keep connections under names. None of them calls a server."""

import os

from magnetar.server.tools.admin.admin_errors import CommandError
from magnetar.server.tools.admin.command_table import MARK, VALUE, Argument, Command, Option
from magnetar.server.tools.admin.invocation import Invocation
from magnetar.server.tools.connection.contexts import CONTEXT_KEYS, Contexts, read_contexts, write_contexts

_NAME = Argument("name", "the context's name")
SECRETS = ("authParams",)
HIDDEN = "(hidden)"
_OPTIONS = (
    Option("--admin-url --admin-service-url", "the web address, http://host:8080", called="webServiceUrl"),
    Option("--service-url", "the binary address, pulsar://host:6650", called="brokerServiceUrl"),
    Option("--token-file", "the file with the token to log in with", called="tokenFile"),
    Option("--auth-plugin", "Java's class of the authentication, or token, basic, tls", called="authPlugin"),
    Option("--auth-params", "what the class takes; better a file: file:///path", called="authParams"),
    Option("--tls-trust-cert-path", "the certificates to trust, PEM", called="tlsTrustCertsFilePath"),
    Option("--tls-allow-insecure", "trust every server's certificate", MARK, called="tlsAllowInsecureConnection"),
    Option(
        "--tls-enable-hostname-verification",
        "refuse a server whose certificate names another host",
        MARK,
        called="tlsEnableHostnameVerification",
    ),
    Option("--tls-cert-file", "the certificate to log in with, PEM", called="tlsCertificateFilePath"),
    Option("--tls-key-file", "the key of that certificate, PEM", called="tlsKeyFilePath"),
    Option("--request-timeout", "seconds for each call", called="requestTimeout"),
)


def _known(name: str) -> Contexts:
    contexts = read_contexts(os.environ)
    if name not in contexts.by_name:
        raise CommandError(f"there is no context '{name}'")
    return contexts


def _set(invocation: Invocation) -> None:
    """Creates a context, or changes what is given of one. The first context becomes the current one."""
    contexts = read_contexts(os.environ)
    name = invocation["name"]
    given = {key: invocation[key] for key in CONTEXT_KEYS if invocation[key] is not None}
    for key in ("tokenFile", "tlsTrustCertsFilePath", "tlsCertificateFilePath", "tlsKeyFilePath"):
        if key in given:
            given[key] = os.path.abspath(os.path.expanduser(given[key]))
    settings = {key: "true" if value is True else value for key, value in given.items()}
    merged = {**contexts.by_name.get(name, {}), **settings}
    write_contexts(Contexts(contexts.current or name, {**contexts.by_name, name: merged}), os.environ)


def _use(invocation: Invocation) -> None:
    contexts = _known(invocation["name"])
    write_contexts(contexts._replace(current=invocation["name"]), os.environ)


def _get(invocation: Invocation) -> None:
    contexts = read_contexts(os.environ)
    name = invocation["names"][0] if invocation["names"] else contexts.current
    if not name:
        raise CommandError("no context is the current one")
    settings = _known(name).by_name[name]
    shown = {key: HIDDEN if key in SECRETS and "file:" not in value else value for key, value in settings.items()}
    invocation.show({"name": name, **shown})


def _current(invocation: Invocation) -> None:
    current = read_contexts(os.environ).current
    if not current:
        raise CommandError("no context is the current one")
    invocation.show(current)


def _rename(invocation: Invocation) -> None:
    name, new = invocation["name"], invocation["new-name"]
    contexts = _known(name)
    if new in contexts.by_name:
        raise CommandError(f"there is a context '{new}' already")
    renamed = {new if key == name else key: value for key, value in contexts.by_name.items()}
    write_contexts(Contexts(new if contexts.current == name else contexts.current, renamed), os.environ)


def _delete(invocation: Invocation) -> None:
    name = invocation["name"]
    contexts = _known(name)
    left = {key: value for key, value in contexts.by_name.items() if key != name}
    write_contexts(Contexts("" if contexts.current == name else contexts.current, left), os.environ)


def _list(invocation: Invocation) -> None:
    contexts = read_contexts(os.environ)
    if invocation.form == "text":
        for name in contexts.by_name:
            invocation.say(name)
        return
    invocation.show(
        [
            {"current": "*" if name == contexts.current else "", "name": name, "url": each.get("webServiceUrl")}
            for name, each in contexts.by_name.items()
        ]
    )


COMMANDS = (
    Command(
        "set",
        "Creates or changes a context.",
        _set,
        (_NAME,),
        _OPTIONS,
        examples=("west --admin-url https://west:8443 --token-file ~/west.token",),
    ),
    Command("use", "Makes a context the current one.", _use, (_NAME,), examples=("west",)),
    Command(
        "get",
        "Shows the settings of a context, of the current one unless another is named.",
        _get,
        (Argument("names", "the context's name", many=True),),
        output=VALUE,
        examples=("", "west"),
    ),
    Command("current", "Shows the name of the current context.", _current, output=VALUE, examples=("",)),
    Command(
        "rename",
        "Renames a context.",
        _rename,
        (_NAME, Argument("new-name", "its new name")),
        examples=("west us-west",),
    ),
    Command("delete", "Deletes a context.", _delete, (_NAME,), examples=("west",)),
    Command("list", "Lists the contexts.", _list, output=VALUE, examples=("",)),
)
