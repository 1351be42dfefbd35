"""The call that streams a backup of a standalone server; `magnetar backup` makes it. Apache's broker has no such call.

The answer is everything that the server stores, so only superusers may ask for it. The caller writes the files, on the
caller's machine: a path that came over the network would let a caller write wherever the server may.
"""

from magnetar.server.web.calls import Answer, Call, Refusal, Route, Streamed
from magnetar.server.web.needs import SUPERUSER
from magnetar.server.web.places import Place


async def stream_backup(call: Call) -> Answer:
    """Answers with the stream of `server/backup/stream_rules.py`. The body of the request says what the caller has
    already. Raises Refusal 405 at a broker of a cluster."""
    if call.broker.backup is None:
        raise Refusal(405, "Only a standalone server has a backup: the data of a cluster is in its bookies")
    return Streamed(call.broker.backup(call.body))


ROUTES = (Route("POST", "/admin/v2/brokers/backup", stream_backup, SUPERUSER, Place.ASKED_BROKER),)
