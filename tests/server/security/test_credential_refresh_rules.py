"""When a client must renew its credential."""

from magnetar.server.security.credential_refresh_rules import CredentialRefresh, RefreshStep


def test_a_credential_that_has_not_expired_is_left_alone() -> None:
    assert CredentialRefresh(100, supports_refresh=True).look(100) is RefreshStep.NOTHING


def test_an_expired_one_is_asked_for_once_and_its_owner_then_closed() -> None:
    refresh = CredentialRefresh(100, supports_refresh=True)
    assert refresh.look(101) is RefreshStep.CHALLENGE
    assert refresh.is_challenged
    assert refresh.look(161) is RefreshStep.CLOSE


def test_a_client_that_cannot_renew_is_closed_when_it_expires() -> None:
    refresh = CredentialRefresh(100, supports_refresh=False)
    assert refresh.look(100) is RefreshStep.NOTHING
    assert refresh.look(101) is RefreshStep.CLOSE


def test_a_renewed_credential_is_good_until_it_expires_too() -> None:
    refresh = CredentialRefresh(100, supports_refresh=True)
    refresh.look(101)
    assert refresh.renewed(200)
    assert refresh.look(161) is RefreshStep.NOTHING
    assert refresh.look(201) is RefreshStep.CHALLENGE
    assert not refresh.renewed(None)
    assert refresh.look(10_000) is RefreshStep.NOTHING
