"""The metadata of a cluster: records in a tree, which have versions and can be watched, and the paths of these records.

`store` is the contract that every implementation keeps. There are two implementations: `embedded` (one file, or the
memory, of this process) and `zookeeper` (an ensemble that is shared with other processes). This package uses
`pulsar_proto`; the packages `storage` and `server` and the public API use this package.
"""
