"""Tells of a client that was not admitted. The refusal itself is over, so it holds nothing back any more."""

from magnetar.server.why.reasons import Holds, Reason, duration
from magnetar.server.why.subscription_snapshot import RefusedSnapshot


def refused_reason(code: str, client: str, refused: RefusedSnapshot, now_ms: int) -> Reason:
    """Returns the reason. `client` is the word for it: consumer or producer."""
    ago = duration((now_ms - refused.time_ms) / 1000)
    return Reason(
        code,
        Holds.NOTHING,
        f"A {client} from {refused.client} was refused {ago} ago: {refused.kind}: {refused.text}",
        {"timeMs": refused.time_ms, "error": refused.kind, "reason": refused.text, "client": refused.client},
    )
