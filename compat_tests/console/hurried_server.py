"""Runs `magnetar` with live streams that have an event each millisecond, instead of each second, and that end after 30
events, instead of 300: a day of a page passes in minutes. A test starts this file in place of the
interpreter: `python hurried_server.py -m magnetar standalone …`."""

import sys
from importlib import import_module

EVENT_SECONDS = 0.001
EVENTS_OF_A_STREAM = 30

live_calls = import_module("magnetar.server.admin.live_calls")
live_totals = import_module("magnetar.server.broker.live_totals")
live_calls.EVENT_SECONDS = live_totals.PERIOD_SECONDS = EVENT_SECONDS  # type: ignore[attr-defined]
live_calls.EVENTS_MAX = EVENTS_OF_A_STREAM  # type: ignore[attr-defined]
live_totals.SHARE_MAX = 1.0  # type: ignore[attr-defined]
sys.exit(import_module("magnetar.server.commands.main").main(sys.argv[3:]))
