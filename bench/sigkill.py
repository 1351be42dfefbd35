"""SIGKILL rounds under load, judged by the ledger of receipts of the compatibility tests."""

import random
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from compat_tests.harness import ServerFailedError
from compat_tests.python.crash_rounds import CrashRounds, RoundFailedError


def run_rounds(count: int, seed: int | None, say: Callable[[str], None]) -> dict[str, float]:
    """Returns the percentage of rounds in which nothing was lost. A failed round ends the run and keeps its folder."""
    chosen = random.SystemRandom().randrange(1 << 32) if seed is None else seed
    folder = Path(tempfile.mkdtemp(prefix="bench-sigkill-"))
    rounds = CrashRounds(folder, chosen)
    passed = 0
    try:
        for index in range(count):
            result = rounds.run_round()
            passed += 1
            say(
                f"sigkill round {index + 1}/{count}: {result.stored} stored, {result.receipted} receipted, "
                f"{result.acknowledged} acknowledged, started in {result.start_seconds:.2f} s"
            )
        say(f"read back again after all rounds: {rounds.verify_all_again()} messages")
        rounds.server.close()
        rounds.server.assert_no_errors()
    except (RoundFailedError, ServerFailedError) as error:
        say(f"sigkill: FAILED, data and log kept in {folder}\n{error}")
        return {"sigkill": 100.0 * passed / (passed + 1)}
    finally:
        rounds.server.close()
    shutil.rmtree(folder, ignore_errors=True)
    return {"sigkill": 100.0}
