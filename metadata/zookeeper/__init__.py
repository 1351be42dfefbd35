"""The metadata store on a ZooKeeper ensemble: the session and its rules, the wire format, and the recovery of lost
answers.

The modules use `metadata` and `pulsar_proto`; programs that are given a connect string choose this store, and all other
code knows the contract only.
"""
