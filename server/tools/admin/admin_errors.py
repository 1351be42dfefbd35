"""How a command fails. Every failure is a text on stderr and the exit code 1, as pulsar-admin's are."""


class UsageError(Exception):
    """The command line is wrong. The text is shown with the command's usage."""


class CommandError(Exception):
    """A command found that it cannot do its work. The text is shown as pulsar-admin shows the errors of its client: the
    text, an empty line, and `Reason: ` with the text again."""


class RefusedError(Exception):
    """A service or a tool that the command needs is not here. The text is one sentence."""
