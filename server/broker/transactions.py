"""Puts the transaction coordinators of a broker together with the topics that they reach."""

from typing import TYPE_CHECKING

from magnetar.server.broker.transaction_participants import ClusterParticipants, LocalParticipants
from magnetar.server.config.transaction_settings import TransactionSettings
from magnetar.server.transactions.coordinators import TransactionCoordinators
from magnetar.server.transactions.end_calls import EndCalls
from magnetar.server.transactions.live_transactions import LiveTransactions

if TYPE_CHECKING:
    from magnetar.server.broker.broker import Broker


def make_coordinators(
    broker: "Broker", settings: TransactionSettings, live: LiveTransactions
) -> TransactionCoordinators:
    """Returns the coordinators of the broker, which have still to be started. `live` is what the broker's topics ask,
    and answers from now on."""
    cluster = ClusterParticipants(broker)
    participants = LocalParticipants(broker) if broker.ownership.is_sole else cluster
    service = broker.service
    coordinators = TransactionCoordinators(
        settings,
        service.managed_ledgers,
        service.catalog.partitioned,
        service.ownership,
        EndCalls(participants, settings),
    )
    live.attach(coordinators, cluster.is_live)
    return coordinators
