"""The job `audit`: it shows the content of topics and the subscriptions that lag behind. Its rules do no I/O; nothing
else uses this package."""
