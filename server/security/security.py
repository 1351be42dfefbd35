"""The security of a broker: one object that says who a peer is and what the peer may do.

Each denied request leaves one line in the log that says what was denied to which role. Credentials are never logged.
"""

import logging
import time
from collections.abc import Callable, Mapping

from magnetar.metadata import paths
from magnetar.metadata.coordination.record_cache import RecordCache
from magnetar.metadata.store import MetadataStore
from magnetar.server.config.security_settings import SecuritySettings
from magnetar.server.security.authentication import Authenticator
from magnetar.server.security.authorizer import Authorizer, RecordReader, parse_record
from magnetar.server.security.principals import Principal, combination_fault
from magnetar.server.security.providers import make_providers
from magnetar.server.security.security_errors import RejectedCredentialsError, SecurityConfigError

log = logging.getLogger(__name__)

AUTHORIZATION_PROVIDER = "org.apache.pulsar.broker.authorization.PulsarAuthorizationProvider"

ORIGINAL_PRINCIPAL_HEADER = "X-Original-Principal"


class Security:
    """Authentication, and authorization if that is on."""

    def __init__(
        self,
        settings: SecuritySettings,
        tenant_record: RecordReader,
        namespace_record: RecordReader,
        *,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        """`tenant_record` and `namespace_record` are handed to `Authorizer`; `now_s` returns Unix time in seconds.
        Raises SecurityConfigError."""
        if settings.authorization_enabled and settings.authorization_provider != AUTHORIZATION_PROVIDER:
            raise SecurityConfigError(
                f"authorizationProvider: there is only {AUTHORIZATION_PROVIDER} here, not "
                f"{settings.authorization_provider}"
            )
        self.settings = settings
        self.now_s = now_s
        self.proxy_roles = frozenset(settings.proxy_roles)
        self.providers = make_providers(settings, now_s)
        self.authenticator = Authenticator(self.providers, settings.anonymous_user_role)
        self.authorizer = (
            Authorizer(settings, tenant_record, namespace_record) if settings.authorization_enabled else None
        )
        """Decides what roles may do. None while authorization is off: peers have roles in that case, but nothing is
        denied to them."""

    async def principal_of_http(
        self, headers: Mapping[str, str], common_name: str | None, remote: str
    ) -> Principal | None:
        """Returns the principal that makes an HTTP call. Returns None, and logs the reason, when the call must be
        refused with 401."""
        try:
            identity = await self.authenticator.of_http(headers, common_name)
        except RejectedCredentialsError as error:
            log.warning("%s: HTTP call not authenticated: %s", remote, error)
            return None
        original = headers.get(ORIGINAL_PRINCIPAL_HEADER, "")
        if self.authorizer is None:
            return Principal(identity.role)
        fault = combination_fault(identity.role, original, self.proxy_roles, may_repeat=True)
        if fault is not None:
            log.warning("%s: role %s with original principal %r refused: %s", remote, identity.role, original, fault)
            return None
        return Principal(identity.role, original if identity.role in self.proxy_roles else "")


def tenant_reader(store: MetadataStore) -> RecordReader:
    """Returns a reader of /admin/policies/{tenant}, which raises MetadataError. The reader keeps copies of the records,
    and watches the records until the store is closed, so that clients can be authorized even while the store is
    away."""
    records = RecordCache(store, paths.POLICIES, lambda _, value: parse_record(value))
    records.start()

    async def read(tenant: str) -> Mapping[str, object] | None:
        copy = await records.get(paths.tenant_path(tenant))
        return None if copy is None else copy.value

    return read
