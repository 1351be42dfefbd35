"""Magnetar: Apache Pulsar's broker and Apache BookKeeper's replicated log in asyncio Python."""


def __getattr__(name: str) -> str:
    """Returns `__version__` when somebody asks for it: reading it takes longer than a command line may last."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("magnetar")
    except PackageNotFoundError:  # the program runs from a source tree that was never installed
        return "0+source"
