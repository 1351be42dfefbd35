"""What all tests of rules for all inputs share: they judge answers, never the speed of the machine."""

import hypothesis

JUDGE_THE_MACHINE = (hypothesis.HealthCheck.too_slow,)
"""Alarms that a busy machine sets off: too slow in making inputs. A run's own deadline is the other one."""

hypothesis.settings.register_profile(
    "magnetar", parent=hypothesis.settings.default, deadline=None, suppress_health_check=JUDGE_THE_MACHINE
)
hypothesis.settings.load_profile("magnetar")
