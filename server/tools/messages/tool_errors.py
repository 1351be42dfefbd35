"""The errors with which a command on messages ends."""


class ToolError(Exception):
    """The command cannot do what was asked. The text is the sentence for the person who asked."""


class UsageError(ToolError):
    """The options contradict each other or cannot be used; nothing was connected."""


class UnreachableError(ToolError):
    """Nobody listens at the service URL."""
