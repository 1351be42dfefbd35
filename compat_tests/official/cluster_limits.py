"""Tests of the suite that cannot hold on a cluster of several brokers, Apache's or ours, with the reason for each."""

_COMPACTION = "asks any broker for a compaction by PUT; the test's HTTP calls follow no redirect to the owner"

_CREDENTIALS = (
    "looks up over HTTP with a login; libcurl, which the client uses, does not send it to another broker to which a "
    "lookup redirects it"
)

NOT_ON_A_CLUSTER = {
    ("pulsar_test", "test_basic_auth"): _CREDENTIALS,
    ("pulsar_test", "test_basic_auth_method"): _CREDENTIALS,
    ("pulsar_test", "test_token_auth"): _CREDENTIALS,
    ("pulsar_test", "test_null_value_compaction"): _COMPACTION,
    ("pulsar_test", "test_publish_compact_and_consume"): _COMPACTION,
}
