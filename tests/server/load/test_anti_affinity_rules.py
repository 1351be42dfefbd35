"""The namespaces of a group are kept apart: checked against a plain statement of the rule, on random clusters."""

from hypothesis import given
from hypothesis import strategies as st

from magnetar.server.load.anti_affinity_rules import DEFAULT_DOMAIN, least_serving, may_unload, namespaces_by_broker

BROKERS = ["b0", "b1", "b2", "b3", "b4"]
COUNTS = st.dictionaries(st.sampled_from(BROKERS), st.integers(0, 3))
DOMAINS = st.dictionaries(st.sampled_from(BROKERS), st.sampled_from(["x", "y", DEFAULT_DOMAIN]))
SOME = st.sets(st.sampled_from(BROKERS), min_size=1)


@given(SOME, COUNTS, DOMAINS)
def test_the_domain_with_the_fewest_counts_first_and_then_the_broker(
    candidates: set[str], counts: dict[str, int], domains: dict[str, str]
) -> None:
    chosen = least_serving(candidates, counts, domains)
    assert chosen
    assert chosen <= candidates

    def of_domain(broker: str) -> int:
        own = domains.get(broker, DEFAULT_DOMAIN)
        return sum(counts.get(each, 0) for each in candidates if domains.get(each, DEFAULT_DOMAIN) == own)

    if domains:
        least = min(map(of_domain, candidates))
        expected = {broker for broker in candidates if of_domain(broker) == least}
    else:
        expected = candidates
    fewest = min(counts.get(broker, 0) for broker in expected)
    assert chosen == {broker for broker in expected if counts.get(broker, 0) == fewest}


@given(SOME, COUNTS)
def test_without_domains_only_the_brokers_count(candidates: set[str], counts: dict[str, int]) -> None:
    fewest = min(counts.get(broker, 0) for broker in candidates)
    expected = {broker for broker in candidates if counts.get(broker, 0) == fewest}
    assert least_serving(candidates, counts, None) == expected


@given(SOME, COUNTS, st.sampled_from(BROKERS))
def test_a_namespace_leaves_only_if_it_does_not_come_back(
    candidates: set[str], counts: dict[str, int], broker: str
) -> None:
    if may_unload(broker, candidates, counts) and any(counts.values()) and broker in candidates:
        least = min(counts.get(each, 0) for each in candidates)
        assert least == 0 or any(counts.get(each, 0) != counts.get(broker, 0) for each in candidates)
    if len({counts.get(each, 0) for each in candidates}) == 1 and counts.get(broker, 0) and broker in candidates:
        assert not may_unload(broker, candidates, counts)


def test_namespaces_count_once_however_many_bundles_they_have() -> None:
    served = {"b0": {"t/a", "t/b", "t/c"}, "b1": {"t/c"}, "b2": set[str]()}
    groups = {"t/a": "G", "t/b": "g", "t/c": "other"}
    assert namespaces_by_broker(served, "g", groups) == {"b0": 2, "b1": 0, "b2": 0}
