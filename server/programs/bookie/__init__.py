"""The process `magnetar bookie`: what a bookie needs, beside its storage and its port, to be a member of a cluster.

This room uses the storage, the settings, and the web room's shell for the HTTP port. The commands and the operator's
tool use the room, and auto-recovery uses its records of the cluster.
"""
