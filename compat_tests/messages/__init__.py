"""`magnetar produce`, `consume`, `read`, `bench` and `check` as processes, beside the official client."""
