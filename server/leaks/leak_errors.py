"""The error of what `magnetar leaks` and the calls of the same purpose do not do."""


class LeakRefusal(Exception):
    """What was asked is not done. The text is the sentence for the person who asked."""
