"""The job `audit` shows the content of topics and the subscriptions that lag behind. `audit_rules` does no I/O. No
other package uses this one."""
