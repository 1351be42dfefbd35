"""The process `magnetar bookie`: what a bookie needs, beside its storage and its port, to be a member of a cluster.

It uses the storage, the settings, and the web room's shell for its HTTP port. The commands and the operator's tool use
it, and auto-recovery uses its records of the cluster.
"""
