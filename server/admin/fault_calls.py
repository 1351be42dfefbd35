"""The calls by which tests inject faults, with the key `faultInjectionEnabled` and for superusers. Only Magnetar has
them. docs/TESTING.md describes them for users."""

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from magnetar.server.admin import bodies
from magnetar.server.admin.subscription_requests import subscription_of
from magnetar.server.admin.topic_calls import loaded_of_any_domain
from magnetar.server.process.turns import in_portions
from magnetar.server.topics.topic import Topic
from magnetar.server.web.calls import NO_CONTENT, Answer, Call, Refusal, Route
from magnetar.server.web.needs import SUPERUSER
from magnetar.server.web.places import Place
from pulsar_proto.errors import PulsarError
from pulsar_proto.names import TopicName

if TYPE_CHECKING:
    from magnetar.server.faults.fault_rules import FaultSpec
    from magnetar.server.faults.injection import FaultInjection

log = logging.getLogger(__name__)

OFF = "Fault injection is off; a standalone server allows it with faultInjectionEnabled=true"


def _injection(call: Call) -> "FaultInjection":
    """Returns the faults of this server. Raises Refusal 412 when the server takes none."""
    if call.broker.faults is None:
        raise Refusal(412, OFF)
    return call.broker.faults


# --- faults that strike events ----------------------------------------------------------------------------------------


async def faults(call: Call) -> Answer:
    """Answers with the faults that are set: for each its id, the body that would set it, and how many events it has
    seen and struck."""
    return [
        {"id": fault_id, **_as_json(fault.spec), "seen": fault.seen, "struck": fault.struck}
        for fault_id, fault in _injection(call).faults.faults.items()
    ]


async def add_fault(call: Call) -> Answer:
    """Sets a fault and answers with its id. Raises Refusal 400 for a body that describes none."""
    injection = _injection(call)
    body = bodies.obj(bodies.present(bodies.parse(call.body)))
    try:
        spec = _spec_of(body)
        fault_id = injection.faults.add(spec)
    except (ValueError, PulsarError) as error:
        raise Refusal(400, f"The fault cannot be set: {error}") from None
    log.warning("fault %d is set: %s", fault_id, _as_json(spec))
    return {"id": fault_id}


async def clear_faults(call: Call) -> Answer:
    """Takes all faults away. The disk, the clock and the way to the bookie stay as they are."""
    _injection(call).faults.clear()
    log.warning("no fault is set any more")
    return NO_CONTENT


def _spec_of(body: Mapping[str, Any]) -> "FaultSpec":
    """Reads a fault. Raises Refusal 400, ValueError and PulsarError for what cannot be one."""
    from magnetar.server.faults.fault_rules import Effect, FaultSpec, Target

    topic = bodies.text(body.get("topic", ""), "topic")
    return FaultSpec(
        Target(bodies.one_of(body.get("target", ""), Target, "target")),
        Effect(bodies.one_of(body.get("effect", ""), Effect, "effect")),
        TopicName.parse(topic).full if topic else "",
        bodies.integer(body.get("after", 0), what="after"),
        bodies.integer(body.get("times", 1), what="times"),
        bodies.number(body.get("chance", 1), "chance"),
        bodies.integer(body.get("seed", 0), bodies.LONG_MAX, "seed"),
        bodies.integer(body.get("delayMs", 1_000), what="delayMs"),
        bodies.text(body.get("error", "ServiceNotReady"), "error"),
    )


def _as_json(spec: "FaultSpec") -> dict[str, Any]:
    return {
        "target": spec.target,
        "effect": spec.effect,
        "topic": spec.topic,
        "after": spec.after,
        "times": spec.times,
        "chance": spec.chance,
        "seed": spec.seed,
        "delayMs": spec.delay_ms,
        "error": spec.error,
    }


# --- what happens to the whole server ---------------------------------------------------------------------------------


def _given(call: Call, what: str) -> Any:
    """Returns the body. Raises Refusal 400 for null, which elsewhere stands for 0 and false, as in Apache's calls: a
    test that sends null would take back a fault by a mistake."""
    value = bodies.present(bodies.parse(call.body))
    if value is None:
        raise Refusal(400, f"the body must be {what}, not null")
    return value


async def move_clock(call: Call) -> Answer:
    """Sets the time of day of the server ahead of the real one, by the milliseconds in the body, and does at once what
    is due by then. Raises Refusal 400 for a number that is out of range."""
    injection = _injection(call)
    ahead_ms = bodies.integer(_given(call, "a whole number of milliseconds"), bodies.LONG_MAX)
    try:
        injection.clock.move(ahead_ms)
    except ValueError as error:
        raise Refusal(400, str(error)) from None
    log.warning("the clock is %d ms ahead", ahead_ms)
    await injection.run_upkeep()
    async for topic in in_portions(list(call.broker.service.all_topics)):
        if isinstance(topic, Topic) and topic.is_open:
            topic.delayed.clock_jumped()
            await topic.ledger.maintain()
    return NO_CONTENT


async def fill_disk(call: Call) -> Answer:
    """Makes the bookie see a full disk if the body is true, and the real disk if it is false."""
    is_full = bodies.boolean(_given(call, "true or false"))
    await _injection(call).pretend_full_disk(is_full)
    return NO_CONTENT


async def partition_bookie(call: Call) -> Answer:
    """Cuts the bookie off if the body is true, so that it neither answers nor refuses, and heals it if it is false."""
    is_cut_off = bodies.boolean(_given(call, "true or false"))
    partition = _injection(call).partition
    if is_cut_off:
        partition.cut_off()
    else:
        partition.heal()
    log.warning("the bookie is %s", "cut off" if is_cut_off else "reached again")
    return NO_CONTENT


# --- what happens to a topic's clients --------------------------------------------------------------------------------


async def close_producers(call: Call) -> Answer:
    """Sends CLOSE_PRODUCER to all producers of a topic, as a broker does that gives the topic away."""
    _injection(call)
    topic = await loaded_of_any_domain(call)
    topic.publishing.disconnect_all()
    return NO_CONTENT


async def close_consumers(call: Call) -> Answer:
    """Sends CLOSE_CONSUMER to all consumers of a subscription."""
    _injection(call)
    (await subscription_of(call)).disconnect_all()
    return NO_CONTENT


async def redeliver(call: Call) -> Answer:
    """Delivers again whatever the consumers of a subscription hold unacknowledged."""
    _injection(call)
    subscription = await subscription_of(call)
    for consumer in subscription.consumers.copy():
        subscription.redeliver(consumer, ())
    return NO_CONTENT


_FAULTS = "/admin/v2/faults"
_TOPIC = _FAULTS + "/{domain}/{tenant}/{namespace}/{topic}"
_SUBSCRIPTION = _TOPIC + "/subscription/{subscription}"

ROUTES = (
    Route("GET", _FAULTS, faults, SUPERUSER, Place.ASKED_BROKER),
    Route("POST", _FAULTS, add_fault, SUPERUSER, Place.ASKED_BROKER),
    Route("DELETE", _FAULTS, clear_faults, SUPERUSER, Place.ASKED_BROKER),
    Route("PUT", f"{_FAULTS}/clock", move_clock, SUPERUSER, Place.ASKED_BROKER),
    Route("PUT", f"{_FAULTS}/full-disk", fill_disk, SUPERUSER, Place.ASKED_BROKER),
    Route("PUT", f"{_FAULTS}/bookie-partition", partition_bookie, SUPERUSER, Place.ASKED_BROKER),
    Route("POST", f"{_TOPIC}/close-producers", close_producers, SUPERUSER, Place.ASKED_BROKER),
    Route("POST", f"{_SUBSCRIPTION}/close-consumers", close_consumers, SUPERUSER, Place.ASKED_BROKER),
    Route("POST", f"{_SUBSCRIPTION}/redeliver", redeliver, SUPERUSER, Place.ASKED_BROKER),
)
