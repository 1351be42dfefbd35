"""The metadata of a cluster: versioned, watched records in a tree, and the paths of these records.

`store` is the contract that every implementation keeps. There are two: `embedded` (one file of this process, or its
memory) and `zookeeper` (an ensemble that is shared with others). This room uses `pulsar_proto`; storage, server and the
public face use it.
"""
