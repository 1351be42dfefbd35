"""What the broker does to topics by the clock: expiry, quotas, snapshots, and what is not used any more."""
