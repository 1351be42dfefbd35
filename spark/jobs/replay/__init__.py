"""The job `replay` sends the messages of a range, or dead letters, to a topic again. Nothing else uses this package."""
