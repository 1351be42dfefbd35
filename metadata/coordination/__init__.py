"""Lets several processes agree by means of the metadata store: locks, the election of one leader, and copies of records
that follow the store.

The modules use the contract of `metadata` only, never a particular store, so standalone and clusters both use them. The
packages `storage` and `server` may use this package.
"""
