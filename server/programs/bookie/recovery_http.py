"""The HTTP port of auto-recovery in a process of its own: its metrics, and whether it is alive."""

from aiohttp import web

from magnetar.server.process.metric_tables import MetricFamilies
from magnetar.server.programs.bookie.page_server import PageServer, heartbeat, metrics_response
from magnetar.server.programs.bookie.recovery_metrics import add_recovery
from magnetar.storage.repair.auto_recovery import AutoRecovery


class RecoveryHttp(PageServer):
    """The pages of one process. As with BookKeeper, callers do not log in."""

    def __init__(self, recovery: AutoRecovery) -> None:
        super().__init__({"/heartbeat": {"GET": heartbeat}, "/metrics": {"GET": self._metrics}})
        self._recovery = recovery

    async def _metrics(self, request: web.BaseRequest) -> web.Response:
        families = MetricFamilies()
        add_recovery(families, self._recovery)
        return metrics_response(request, families)
