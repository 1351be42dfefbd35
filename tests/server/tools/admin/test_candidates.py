"""What a TAB offers of the names that the server knows."""

import json

import pytest

from magnetar.server.tools.admin import candidates as module
from magnetar.server.tools.admin.candidates import candidates
from tests.server.tools.admin.scene import Recorded

ANSWERS = {
    "/admin/v2/tenants": ["public", "shop"],
    "/admin/v2/clusters": ["west"],
    "/admin/v2/namespaces/shop": ["shop/web", "shop/old"],
    "/admin/v2/persistent/shop/web": [
        "persistent://shop/web/orders",
        "persistent://shop/web/parts-partition-0",
        "persistent://shop/web/parts-partition-1",
    ],
    "/admin/v2/persistent/shop/web/partitioned": ["persistent://shop/web/parts"],
    "/admin/v2/persistent/public/default": ["persistent://public/default/plain"],
    "/admin/v2/persistent/public/default/partitioned": [],
    "/admin/v2/persistent/shop/web/orders/subscriptions": ["billing", "audit"],
}


@pytest.fixture(autouse=True)
def server(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {path: json.dumps(names).encode() for path, names in ANSWERS.items()}
    monkeypatch.setattr(module, "_http", lambda _: Recorded(answers))


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (["namespaces", "policies", ""], ["public/", "shop/"]),
        (["namespaces", "policies", "shop/w"], ["shop/web"]),
        (["topics", "stats", ""], ["plain", "public/", "shop/"]),
        (["topics", "stats", "sh"], ["shop/"]),
        (["topics", "stats", "shop/"], ["shop/old/", "shop/web/"]),
        (["topics", "stats", "shop/web/"], ["shop/web/orders", "shop/web/parts"]),
        (["topics", "stats", "persistent://shop/web/o"], ["persistent://shop/web/orders"]),
        (["topics", "skip", "shop/web/orders", "-s", ""], ["audit", "billing"]),
        (["topics", "skip", "-n", "3", "shop/web/orders", "-s", "b"], ["billing"]),
        (["subscriptions", "skip", "shop/web/orders", "a"], ["audit"]),
        (["clusters", "get", ""], ["west"]),
        (["tenants", "get", "s"], ["shop"]),
        (["topics", "stats", "shop/web/orders", ""], []),
        (["topics", "stats", "shop/nope/"], []),
        (["topics", "skip", "shop/web/orders", "-n", ""], []),
        (["topics", "peek-messages", "t", "-til", "READ_C"], ["READ_COMMITTED"]),
    ],
)
def test_names_of_live_objects_are_offered(typed: list[str], offered: list[str]) -> None:
    assert candidates(typed) == offered
