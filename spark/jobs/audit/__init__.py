"""The job `audit`: what topics hold and who is behind. Its rules do no I/O; nothing else uses this package."""
