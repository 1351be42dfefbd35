"""The metadata store on a ZooKeeper ensemble: the session and its rules, the wire format, and the recovery of lost
answers.

The modules use `metadata` and `pulsar_proto`. Programs that are given a connect string choose this store. All other
code uses only the contract `metadata.store`, and the parsers of connect strings and service URIs.
"""
