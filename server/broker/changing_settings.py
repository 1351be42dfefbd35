"""Names the settings of a broker that may change while the broker runs, and updates the parts of the broker that were
built from changed settings.

Settings that are read at each use need no update. A part that is built later (the client port, the load manager) makes
its own settings changeable with `broker.configuration.hold`.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from magnetar.server.broker.broker import Broker


def hold_settings(broker: "Broker") -> None:
    """Makes the settings of the broker's parts changeable. Called once, when the broker is built."""
    configuration, service = broker.configuration, broker.service

    def topics_follow(changed: frozenset[str]) -> None:
        broker.spawn(service.settings_changed())

    def limits_follow(changed: frozenset[str]) -> None:
        broker.http_publishing.resize(broker.limits.max_message_publish_buffer_size_in_mb << 20)

    configuration.hold(service.settings, topics_follow)
    configuration.hold(service.managed_ledgers.config, topics_follow)
    configuration.hold(service.moves.settings)
    configuration.hold(broker.limits, limits_follow)
    if service.transactions is not None:
        configuration.hold(service.transactions.support.settings)  # logs that are opened later obey it
    security = broker.security
    if security is not None:
        authorizer, roles = security.authorizer, security.settings

        def superusers_follow(changed: frozenset[str]) -> None:
            if authorizer is not None:
                authorizer.superusers_changed(roles.super_user_roles)

        configuration.hold(roles, superusers_follow)
