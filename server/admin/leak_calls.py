"""The calls that find and remove leaks of a running standalone server; `magnetar leaks --admin-url` makes them.
Apache's broker has no such calls.

An answer is a stream of lines, each a JSON object: `{"result": {…}, "text": "…"}` or `{"warning": "…"}`, and at the end
`{"end": {"found": true}}`, or `{"end": {"error": "…"}}` when the work has failed. An answer without an end broke off.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing

import orjson

from magnetar.server.leaks.leak_errors import LeakRefusal
from magnetar.server.leaks.leak_steps import HOUR_MS
from magnetar.server.leaks.live_leaks import FAULTS, LiveLeaks, Work
from magnetar.server.web.calls import Answer, Call, Refusal, Streamed

HOURS_MAX = 24 * 366
GRACE_HOURS = 24
SECOND_LOOK_HOURS = 1


async def find(call: Call) -> Answer:
    """Answers with what nothing refers to: `graceHours`, and `fromBookies` for the sizes of open ledgers."""
    return _answer((await _leaks(call)).find(_grace_ms(call), from_bookies=call.flag("fromBookies")))


async def explain(call: Call) -> Answer:
    """Answers who refers to `subject`, which is the id of a ledger or the path of a record."""
    subject = call.query.get("subject", "")
    if not subject:
        raise Refusal(400, "The parameter subject is missing: a ledger's id, or the path of a record")
    return _answer((await _leaks(call)).explain(_grace_ms(call), subject))


async def back_up(call: Call) -> Answer:
    """Makes a backup of what `find` lists; with `entries` of the ledgers' entries, too."""
    leaks = await _leaks(call)
    return _answer(leaks.backup(_grace_ms(call), _name(call, leaks), entries=call.flag("entries")))


async def remove(call: Call) -> Answer:
    """Removes what the backup holds and a second look still finds, at least `secondLookHours` after the backup."""
    leaks = await _leaks(call)
    hours = _hours(call, "secondLookHours", SECOND_LOOK_HOURS)
    return _answer(leaks.remove(_grace_ms(call), _name(call, leaks), second_look_hours=hours))


async def restore(call: Call) -> Answer:
    """Puts back what was removed with the backup."""
    leaks = await _leaks(call)
    return _answer(leaks.restore(_name(call, leaks)))


async def _leaks(call: Call) -> LiveLeaks:
    if call.broker.leaks is None:
        raise Refusal(405, "Only a standalone server has these calls: in a cluster, magnetar leaks --metadata-store")
    return await call.broker.leaks()


def _name(call: Call, leaks: LiveLeaks) -> str:
    name = call.parts["name"]
    try:
        leaks.check_name(name)
    except LeakRefusal as error:
        raise Refusal(412, str(error)) from None
    return name


def _grace_ms(call: Call) -> int:
    return _hours(call, "graceHours", GRACE_HOURS) * HOUR_MS


def _hours(call: Call, key: str, default: int) -> int:
    text = call.query.get(key, str(default))
    if not (text.isascii() and text.isdecimal() and len(text) < 9) or int(text) > HOURS_MAX:
        raise Refusal(400, f"{key} is '{text[:40]}' and has to be a number of hours from 0 to {HOURS_MAX}")
    return int(text)


def _answer(work: Work) -> Streamed:
    return Streamed(_lines(work), "application/x-ndjson")


async def _lines(work: Work) -> AsyncGenerator[bytes, None]:
    end: dict[str, object] = {"found": False}
    try:
        async with aclosing(work):
            async for told in work:
                end["found"] = end["found"] or told.is_leak
                part = {"warning": told.text} if told.fields is None else {"result": told.fields, "text": told.text}
                yield orjson.dumps(part, option=orjson.OPT_APPEND_NEWLINE)
    except FAULTS as error:
        end = {"error": str(error)}
    yield orjson.dumps({"end": end}, option=orjson.OPT_APPEND_NEWLINE)
