"""The metadata store on a ZooKeeper ensemble: the session and its rules, the wire format, and lost answers settled.

The modules use `metadata` and `pulsar_proto`; programs that are told a connect string choose this store, everybody else
knows the contract only.
"""
