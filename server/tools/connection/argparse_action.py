"""The argparse action that collects the shared options in one dictionary."""

import argparse
from collections.abc import Sequence
from typing import Any

from magnetar.server.tools.connection.shared_options import DESTINATION


class RememberFlag(argparse.Action):
    """Puts the option's value into the namespace's dictionary of connection flags."""

    def __init__(self, option_strings: Sequence[str], dest: str, **more: Any) -> None:
        super().__init__(option_strings, dest, default=argparse.SUPPRESS, **more)

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        # A new dictionary each time: the one in the namespace may be the parser's default, which all parses share.
        value = values if isinstance(values, str) else "true"
        setattr(namespace, DESTINATION, {**getattr(namespace, DESTINATION), self.dest: value})
