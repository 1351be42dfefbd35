"""The commands of `namespaces` whose calls depend on their options."""

from urllib.parse import quote

from magnetar.server.tools.admin.admin_errors import UsageError
from magnetar.server.tools.admin.command_table import LINES, Call, Query
from magnetar.server.tools.admin.invocation import Invocation
from magnetar.server.tools.admin.value_rules import LONG_MAX, whole_number

BUNDLES_MAX = 1 << 32
SECONDS_IN_MS = 1_000


def list_of_cluster(invocation: Invocation) -> None:
    parts = invocation["place"].split("/")
    if len(parts) != 2:
        raise UsageError("Parameter format is incorrect")
    tenant, cluster = (quote(part, safe="") for part in parts)
    invocation.show(invocation.get(f"/admin/namespaces/{tenant}/{cluster}"))


def create_namespace(invocation: Invocation) -> None:
    """Creates a namespace. One with a cluster in its name takes its bundles and clusters by calls of their own."""
    bundles, clusters = invocation["bundles"], invocation["clusters"]
    if not 0 <= bundles <= BUNDLES_MAX:
        raise UsageError("Invalid number of bundles. Number of bundles has to be in the range of (0, 2^32].")
    numbered = {"numBundles": bundles} if bundles else None
    if not invocation.namespace.cluster:
        body = {"bundles": numbered, "replication_clusters": list(dict.fromkeys(clusters or ()))}
        invocation.call(Call("PUT", "{namespace}", body=lambda _: body))
        return
    invocation.call(Call("PUT", "{namespace}", body=lambda _: numbered))
    if clusters:
        invocation.call(Call("POST", "{namespace}/replication", body=lambda _: list(dict.fromkeys(clusters))))


def unload_namespace(invocation: Invocation) -> None:
    broker = invocation["destinationBroker"]
    if invocation["bundle"] is not None:
        query: Query = (("destinationBroker", "{destinationBroker}"),)
        invocation.call(Call("PUT", "{namespace}/{bundle}/unload", query))
    elif broker and broker.strip():
        raise UsageError("--destinationBroker cannot be set when --bundle is not specified.")
    else:
        invocation.call(Call("PUT", "{namespace}/unload"))


def split_bundle(invocation: Invocation) -> None:
    bundle, kind = invocation["bundle"], invocation["bundle-type"]
    if not bundle and kind is None:
        raise UsageError("Must pass one of the params: --bundle / --bundle-type")
    if bundle and kind is not None:
        raise UsageError("--bundle and --bundle-type are mutually exclusive")
    try:
        boundaries = [whole_number(text, LONG_MAX, "a long") for text in invocation["split-boundaries"] or ()]
    except ValueError as error:
        raise UsageError(f"Invalid value for option '--split-boundaries' (<split-boundaries>): {error}") from None
    query: Query = (("unload", "{unload}"), ("splitAlgorithmName", "{split-algorithm-name}"))
    path = f"{{namespace}}/{{{'bundle-type' if kind else 'bundle'}}}/split"
    invocation.call(Call("PUT", path, query, (lambda _: boundaries) if boundaries else None))


def topic_positions(invocation: Invocation) -> None:
    if not invocation["bundle"]:
        raise UsageError("Must pass one of the params: --bundle ")
    topics = invocation["topic-list"]
    pairs = [("topics", ",".join(topics))] if topics else []
    path = invocation.filled("{namespace}/{bundle}/topicHashPositions")
    invocation.show(invocation.http.get(path, pairs).json())


def clear_backlog(invocation: Invocation) -> None:
    """Asks before it does so, unless --force was given. Without an answer, nothing is done."""
    if not invocation["force"] and not _confirmed("Are you sure you want to clear the backlog?"):
        return
    bundle = "/{bundle}" if invocation["bundle"] is not None else ""
    subscription = "/{sub}" if invocation["sub"] is not None else ""
    invocation.call(Call("POST", f"{{namespace}}{bundle}/clearBacklog{subscription}"))


def _confirmed(question: str) -> bool:
    """Asks until the answer is yes or no. The end of the input means no."""
    while True:
        try:
            answer = input(f"{question} (Y or N) ").strip().lower()
        except EOFError:
            return False
        if answer in ("y", "yes", "n", "no"):
            return answer[0] == "y"
        print(f"Invalid input: {answer}")


def unsubscribe(invocation: Invocation) -> None:
    bundle = "/{bundle}" if invocation["bundle"] is not None else ""
    invocation.call(Call("POST", f"{{namespace}}{bundle}/unsubscribe/{{sub}}"))


def anti_affinity_namespaces(invocation: Invocation) -> None:
    path = "/admin/namespaces/{cluster}/antiAffinity/{group}"
    invocation.show(invocation.get(path, (("property", "{tenant}"),)), LINES)


def show_property(invocation: Invocation) -> None:
    _property(invocation, "GET")


def remove_property(invocation: Invocation) -> None:
    _property(invocation, "DELETE")


def _property(invocation: Invocation, method: str) -> None:
    """Shows the value that the call answers; an empty one means that there is none."""
    answer = invocation.call(Call(method, "{namespace}/property/{key}"))
    invocation.show(answer.text() or "null")


def show_offload_threshold(invocation: Invocation) -> None:
    for name, path in (("InBytes", "offloadThreshold"), ("InSeconds", "offloadThresholdInSeconds")):
        invocation.say(f"offloadThreshold{name}: {invocation.get('{namespace}/' + path)}")


def set_offload_threshold(invocation: Invocation) -> None:
    invocation.call(Call("PUT", "{namespace}/offloadThreshold", body="size"))
    invocation.call(Call("PUT", "{namespace}/offloadThresholdInSeconds", body="time"))


def show_offload_lag(invocation: Invocation) -> None:
    lag_ms = invocation.get("{namespace}/offloadDeletionLagMs")
    if lag_ms is None:
        invocation.say("Unset for namespace. Defaulting to broker setting.")
    else:
        invocation.say(f"{int(lag_ms / (60 * SECONDS_IN_MS))} minute(s)")


def show_upper(path: str) -> "_ShowUpper":
    """Returns an action that shows the word that `path` answers in capital letters."""
    return _ShowUpper(path)


class _ShowUpper:
    def __init__(self, path: str) -> None:
        self._path = path

    def __call__(self, invocation: Invocation) -> None:
        word = invocation.get(self._path)
        invocation.show(str(word).upper() if word is not None else None)
