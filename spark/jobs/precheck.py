"""Checks that the service answers and accepts the job's login, and that topics and checkpoint fit. All checks run
before Java starts, because the start of Java takes many seconds.
"""

import sys
import time
from collections.abc import Iterable, Mapping

from pyspark.sql.types import StructType

from magnetar.spark.source.checkpoint import Checkpoint
from magnetar.spark.source.client.admin_client import AdminClient, AdminError
from magnetar.spark.source.client.broker_connection import Disconnected
from magnetar.spark.source.client.pulsar_client import PulsarClient, namespace_of_pattern, topic_pattern
from magnetar.spark.source.columns.value_columns import ValueColumns
from magnetar.spark.source.options import BadOption, Options, ServiceAddress, address_of, read_options
from magnetar.spark.source.planner import Planner
from pulsar_proto.errors import PulsarError, TopicNotFound
from pulsar_proto.names import TopicName

PATIENCE_SECONDS = 10.0
"""How long a job waits for a service that does not answer yet, because job and service are often started together."""
RETRY_SECONDS = 0.5
AUTH_FAILED = (401,)


def check_service(given: Mapping[str, str], *, tell: bool = False) -> None:
    """Connects to the service, and to the admin interface if its URL is given. With `tell`, a line on stderr says that
    the job waits for the service. Raises Disconnected, AdminError, PulsarError (for a refused login) or ValueError,
    each with a sentence for people."""
    address = address_of(Options(given))
    deadline = time.monotonic() + PATIENCE_SECONDS
    told = not tell
    while True:
        try:
            return _ask(address)
        except Disconnected as error:
            sentence = str(error)
        except AdminError as error:
            if error.status:
                raise
            sentence = str(error)
        if time.monotonic() + RETRY_SECONDS > deadline:
            raise Disconnected(f"{sentence} (tried for {PATIENCE_SECONDS:g} s)")
        if not told:
            print(f"{sentence}; trying for {PATIENCE_SECONDS:g} s", file=sys.stderr, flush=True)
            told = True
        time.sleep(RETRY_SECONDS)


def _ask(address: ServiceAddress) -> None:
    client = PulsarClient(address.service_url, address.login)
    try:
        client.check()
    except PulsarError as error:
        raise type(error)(f"{address.service_url}: {error}") from error
    finally:
        client.close()
    if address.admin_url:
        try:
            AdminClient(address.admin_url, address.login).call("GET", "clusters")
        except AdminError as error:
            if error.status in (0, *AUTH_FAILED):
                raise


def check_topics(given: Mapping[str, str], *, endless: bool = False, begins: bool = True) -> None:
    """Checks that the topics exist and may be read, and, for a query that `begins` and has no checkpoint yet, that the
    places where it is to start are in these topics. An `endless` run may have a pattern that no topic matches yet, but
    not in a namespace that does not exist. Raises PulsarError, such as TopicNotFound and AuthorizationFault, or
    BadOption."""
    asked = given.get("topic") or given.get("topics") or given.get("topicsPattern")
    options = read_options(given, streaming=True)
    planner = Planner(options)
    try:
        names = planner.partitions()
        if names and begins:
            planner.check_names(names)
        elif not names and options.pattern:
            planner.client.check_namespace(namespace_of_pattern(options.pattern))
    except TopicNotFound:
        raise
    except PulsarError as error:
        raise type(error)(f"{asked}: {error}") from error
    finally:
        planner.close()
    if not names and not endless:
        raise TopicNotFound(f"no topic matches {asked!r}; names are as persistent://public/default/orders")


def check_targets(given: Mapping[str, str], topics: Iterable[str]) -> None:
    """Checks that the namespaces exist of the topics that a job is to write; the broker makes the topics themselves.
    Empty names are passed over. Raises TopicNotFound, which names the namespace."""
    namespaces = sorted({TopicName.parse(topic).namespace for topic in topics if topic})
    if not namespaces:
        return
    address = address_of(Options(given))
    client = PulsarClient(address.service_url, address.login)
    try:
        for namespace in namespaces:
            client.check_namespace(namespace)
    finally:
        client.close()


def value_columns(given: Mapping[str, str]) -> StructType:
    """Returns the columns that a job gets from the values of its topics. Raises PulsarError."""
    planner = Planner(read_options(given, streaming=True))
    try:
        return StructType(list(ValueColumns(planner.schema(), lambda version: None).fields))
    finally:
        planner.close()


def check_checkpoint(given: Mapping[str, str], checkpoint: Checkpoint, job: str, called: str) -> None:
    """Raises BadOption when the checkpoint belongs to another job, whose place in the topics would be taken for this
    one's, or to a query over other topics, which would lose its place in them. `called` is the path or URL that the
    user gave for the checkpoint, of which `checkpoint` may be a copy."""
    if checkpoint.job() not in ("", job):
        raise BadOption(f"checkpoint {called} is of {checkpoint.job()}: give each job one of its own")
    options = read_options(given, streaming=True)
    if options.pattern:
        is_asked = topic_pattern(options.pattern)
    else:
        asked = {TopicName.parse(topic).base for topic in options.topics}
        is_asked = asked.__contains__
    others = sorted({base.full for name in checkpoint.planned() if not is_asked(base := TopicName.parse(name).base)})
    if others:
        raise BadOption(
            f"checkpoint {called} is of a query that reads {', '.join(others)}: give each query a checkpoint of its own"
        )
