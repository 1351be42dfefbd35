"""kazoo's own test-suite against `magnetar zookeeper`."""
