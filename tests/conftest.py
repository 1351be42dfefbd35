"""Settings for the property tests: they judge results, and never the speed of the machine."""

import hypothesis

JUDGE_THE_MACHINE = (hypothesis.HealthCheck.too_slow,)
"""Hypothesis's alarms that a busy machine sets off because making inputs is slow. The deadline of a run, which is off
too, is the other one."""

hypothesis.settings.register_profile(
    "magnetar", parent=hypothesis.settings.default, deadline=None, suppress_health_check=JUDGE_THE_MACHINE
)
hypothesis.settings.load_profile("magnetar")
