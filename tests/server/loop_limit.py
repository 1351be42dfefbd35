"""The longest that one callback of a server under test may hold the event loop, whatever a client sent or stored."""

from compat_tests.harness import LOOP_CPU_LIMIT_MS

CPU_LIMIT_SECONDS = LOOP_CPU_LIMIT_MS / 1000
