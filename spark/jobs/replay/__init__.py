"""The job `replay` sends the messages of a range, or dead letters, to a topic again. No other package uses this one."""
