"""The paths at which Java's brokers and bookies keep their records.

Arguments are names in the form that the store has: `namespace` is "tenant/namespace", and a topic's local part is
encoded by `pulsar_proto.names.encode_local`. The paths of single ledgers are in `pulsar_proto.records.ledger_record`.
Source: NamespaceResources, ClusterResources and TopicResources, MetaStoreImpl, BookkeeperSchemaStorage and
OwnershipCache of Pulsar; BookKeeperConstants.
"""

from pulsar_proto.names import encode_local
from pulsar_proto.records import ledger_record

CLUSTERS = "/admin/clusters"
POLICIES = "/admin/policies"
LOCAL_POLICIES = "/admin/local-policies"
PARTITIONED_TOPICS = "/admin/partitioned-topics"
MANAGED_LEDGERS = "/managed-ledgers"
NAMESPACE_OWNERS = "/namespace"
PRODUCER_NAME_COUNTER = "/counters/producer-name"
SCHEMAS = "/schemas"
RESOURCE_GROUPS = "/admin/resourcegroups"
FLAGS = "/admin/flags"
CONFIGURATION = "/admin/configuration"
"""The configuration that brokers change while they run: a JSON object of texts by key."""
BOOKIE_RACKS = "/bookies"

LEDGERS_ROOT = ledger_record.LEDGERS_ROOT
LAYOUT = f"{LEDGERS_ROOT}/LAYOUT"
INSTANCE_ID = f"{LEDGERS_ROOT}/INSTANCEID"
AVAILABLE_BOOKIES = f"{LEDGERS_ROOT}/available"
READ_ONLY_BOOKIES = f"{AVAILABLE_BOOKIES}/readonly"
COOKIES = f"{LEDGERS_ROOT}/cookies"


def cluster_path(cluster: str) -> str:
    return f"{CLUSTERS}/{cluster}"


def tenant_path(tenant: str) -> str:
    return f"{POLICIES}/{tenant}"


def policies_path(namespace: str) -> str:
    return f"{POLICIES}/{namespace}"


def local_policies_path(namespace: str) -> str:
    return f"{LOCAL_POLICIES}/{namespace}"


def partitioned_topic_path(namespace: str, domain: str, encoded_local: str) -> str:
    return f"{PARTITIONED_TOPICS}/{namespace}/{domain}/{encoded_local}"


def topics_path(namespace: str, domain: str = "persistent") -> str:
    """Returns the path whose children have the encoded local names of the namespace's topics."""
    return f"{MANAGED_LEDGERS}/{namespace}/{domain}"


def managed_ledger_path(managed_ledger_name: str) -> str:
    """Returns the path of a managed ledger. Its name is "tenant/namespace/domain/encoded-local"."""
    return f"{MANAGED_LEDGERS}/{managed_ledger_name}"


def cursor_path(managed_ledger_name: str, cursor_name: str) -> str:
    """Returns the path of a cursor. `cursor_name` is a subscription's name as the user wrote it."""
    return f"{MANAGED_LEDGERS}/{managed_ledger_name}/{encode_local(cursor_name)}"


def bundle_owner_path(namespace: str, bundle_range: str) -> str:
    """Returns the path of the record that names a bundle's owner. A bundle's range has the form
    "0x00000000_0x40000000"."""
    return f"{NAMESPACE_OWNERS}/{namespace}/{bundle_range}"


def bookie_path(bookie_id: str, *, read_only: bool = False) -> str:
    return f"{READ_ONLY_BOOKIES if read_only else AVAILABLE_BOOKIES}/{bookie_id}"


def cookie_path(bookie_id: str) -> str:
    return f"{COOKIES}/{bookie_id}"
