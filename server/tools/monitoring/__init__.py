"""Our Grafana dashboards and Prometheus alert rules as code, which `magnetar dashboards` writes as files.

The dashboards follow the conventions of Apache's Helm chart: each has a uid that stays the same, one variable for the
data source, and no field that changes with every export. This package imports nothing of ours, and only the command
line uses it.
"""
