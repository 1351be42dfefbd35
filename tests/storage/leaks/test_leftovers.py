"""Which records are left over from namespaces, tenants, brokers and ledgers that are gone."""

from magnetar.storage.leaks.znode_rules import (
    Known,
    Node,
    leftover_brokers,
    leftover_marks,
    leftover_namespaces,
    leftover_parents,
    leftover_tenants,
)

KNOWN = Known(frozenset({"t"}), frozenset({"t/n"}), frozenset({"b:8080"}))
BEFORE_MS = 1000


def node(path: str, *, modified_ms: int = 5, ephemeral: bool = False, has_value: bool = False) -> Node:
    return Node(path, 1, modified_ms, ephemeral, has_value)


def found(root: str, *nodes: Node) -> dict[str, bool]:
    """Returns the leftovers below a root: whether each may be removed, by its path. The trees are cut by namespace."""
    trees: dict[str, list[Node]] = {}
    for each in nodes:
        names = each.path.removeprefix(f"{root}/").split("/")
        trees.setdefault("/".join(names[:2]), []).append(each)
    return {each.path: each.removable for each in leftover_namespaces("zk", root, trees, KNOWN, BEFORE_MS)}


def test_records_of_namespaces_and_tenants_that_are_gone_are_left_over() -> None:
    root = "/admin/local-policies"
    assert found(root, node(f"{root}/t/n", has_value=True), node(f"{root}/t")) == {}
    assert found(root, node(f"{root}/t/gone", has_value=True)) == {f"{root}/t/gone": True}
    assert found(root, node(f"{root}/gone")) == {f"{root}/gone": True}
    assert found(root, node(f"{root}/pulsar/system"), node(f"{root}/pulsar")) == {}, "Pulsar's own tenant stays"


def test_a_tree_with_an_ephemeral_or_a_new_record_is_left_alone() -> None:
    root, path = "/namespace", "/namespace/t/gone"
    assert found(root, node(path), node(f"{path}/0x0_0xf")) == {path: True}
    assert found(root, node(path), node(f"{path}/0x0_0xf", ephemeral=True)) == {}
    assert found(root, node(path), node(f"{path}/0x0_0xf", modified_ms=BEFORE_MS + 1)) == {}


def test_records_that_name_ledgers_are_shown_and_not_removed() -> None:
    for root in ("/managed-ledgers", "/schemas"):
        path = f"{root}/t/gone"
        assert found(root, node(path), node(f"{path}/persistent")) == {path: True}
        assert found(root, node(path), node(f"{path}/x", has_value=True)) == {path: False}


def test_averages_of_brokers_marks_of_ledgers_and_empty_parents_are_left_over() -> None:
    there, gone = node("/loadbalance/broker-time-average/b:8080"), node("/loadbalance/broker-time-average/c:8080")
    assert [each.path for each in leftover_brokers("zk", [there, gone], KNOWN, BEFORE_MS)] == [gone.path]
    marks = {1: node("/m/urL1"), 2: node("/m/urL2")}
    assert [each.path for each in leftover_marks(marks, {1}, BEFORE_MS)] == ["/m/urL2"]
    full, empty, young = node("/ledgers/00"), node("/ledgers/01"), node("/ledgers/02", modified_ms=2000)
    children = {full.path: 1, empty.path: 0, young.path: 0}
    assert [each.path for each in leftover_parents([full, empty, young], children, BEFORE_MS)] == [empty.path]


def test_a_tenant_is_left_over_only_without_data_and_namespaces() -> None:
    tenants = [node(f"/admin/policies/{name}") for name in ("t", "empty", "pulsar")]
    tenants.append(node("/admin/policies/new", has_value=True))
    assert [each.path for each in leftover_tenants("zk", tenants, KNOWN, BEFORE_MS)] == ["/admin/policies/empty"]
