"""Faults that tests ask for: answers that get lost, writes that fail, a full disk, a bookie that is cut off, a clock
that jumps. Nothing of this room is imported unless `faultInjectionEnabled` is true, which is not for servers of users.

Begin with `fault_rules.py`, which decides when a fault strikes. The room knows the ledger client's channel and bytes of
the protocol; the ports and the admin calls use it.
"""
