"""A child process for the crash tests: writes to a store until it is killed, and says on stdout what was acknowledged.

    python -m tests.metadata.embedded.crash_writer FILE FIRST_NUMBER

The store has a witness, FILE-witness. Each line `+N` or `-N` says that the creation or the deletion of the record /n/N
was acknowledged.
"""

import asyncio
import os
import sys

from magnetar.metadata.embedded.embedded_store import EmbeddedStore
from magnetar.metadata.embedded.witness import Witness

WRITERS = 4


def value_of(number: int) -> bytes:
    return f"value {number} ".encode() * (1 + number % 40)


def say(text: str) -> None:
    os.write(1, text.encode() + b"\n")


async def write_for_ever(store: EmbeddedStore, first: int) -> None:
    number = first
    while True:
        await store.create(f"/n/{number}", value_of(number), make_parents=True)
        say(f"+{number}")
        if number % 5 == 0:
            await store.delete(f"/n/{number}")
            say(f"-{number}")
        number += WRITERS


async def open_witnessed(path: str) -> EmbeddedStore:
    """Opens the store as a server does: it is refused when it does not fit its witness."""
    witness = Witness(f"{path}-witness")
    store = await EmbeddedStore.start(await EmbeddedStore.read(path, witness), witness)
    await store.begin_witness(witness)
    return store


async def main() -> None:
    store = await open_witnessed(sys.argv[1])
    first = int(sys.argv[2])
    await store.create(f"/alive-{first}", ephemeral=True)
    await store.create(f"/n/ephemeral-{first}", ephemeral=True, make_parents=True)
    await asyncio.gather(*(write_for_ever(store, first + writer) for writer in range(WRITERS)))


if __name__ == "__main__":
    asyncio.run(main())
