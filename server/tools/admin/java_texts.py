"""Answers that pulsar-admin prints as a Java class's toString, a line for each entry of a map."""

from collections.abc import Callable
from typing import Any

from magnetar.server.tools.admin.invocation import TEXT_FORMAT, Invocation
from magnetar.server.tools.admin.jackson_rules import lombok_text


def show_texts(invocation: Invocation, entries: Any, text: Callable[[dict[str, Any]], str]) -> None:
    """Prints a map of objects: the key and the object's text on a line."""
    if invocation.form != TEXT_FORMAT:
        invocation.show(entries)
        return
    for key, entry in (entries or {}).items():
        invocation.say(f"{key}    {text(entry)}")


def show_backlog_quotas(invocation: Invocation) -> None:
    query = [("isGlobal", "{global}")] if "global" in invocation.values else []
    query += [("applied", "{applied}")] if "applied" in invocation.values else []
    place = "topic" if "topic" in invocation.values else "namespace"
    show_texts(invocation, invocation.get(f"{{{place}}}/backlogQuotaMap", tuple(query)), backlog_quota_text)


def backlog_quota_text(quota: dict[str, Any]) -> str:
    size = quota.get("limitSize", quota.get("limit"))
    fields = {
        "limit": size,
        "limitSize": size,
        "limitTime": quota.get("limitTime", -1),
        "policy": quota.get("policy"),
    }
    return lombok_text("BacklogQuotaImpl", fields)


def show_isolation_policies(invocation: Invocation) -> None:
    entries = invocation.get("/admin/v2/clusters/{cluster}/namespaceIsolationPolicies")
    show_texts(invocation, entries, isolation_text)


def isolation_text(policy: dict[str, Any]) -> str:
    failover = policy.get("auto_failover_policy") or {}
    fields = {
        "namespaces": policy.get("namespaces"),
        "primary": policy.get("primary"),
        "secondary": policy.get("secondary"),
        "autoFailoverPolicy": lombok_text(
            "AutoFailoverPolicyDataImpl",
            {"policyType": failover.get("policy_type"), "parameters": failover.get("parameters")},
        ),
        "unloadScope": policy.get("unload_scope"),
    }
    return lombok_text("NamespaceIsolationDataImpl", fields)


def show_failure_domains(invocation: Invocation) -> None:
    entries = invocation.get("/admin/v2/clusters/{cluster}/failureDomains")
    show_texts(invocation, entries, lambda domain: lombok_text("FailureDomainImpl", {"brokers": domain.get("brokers")}))
