"""The console at a web port with TLS, for a browser that has a client certificate: there is nothing to log in with."""

from pathlib import Path

import pytest

from compat_tests.client_certificates import chromium_with_certificate
from compat_tests.console.page_scripts import cell, has
from compat_tests.security_site import TENANT, running_site

pytestmark = pytest.mark.slow


def test_a_certificate_is_the_login(tmp_path: Path) -> None:
    site_folder, browser_folder = tmp_path / "site", tmp_path / "browser"
    site_folder.mkdir()
    browser_folder.mkdir()
    with running_site(site_folder) as site:
        url = site.server.address.web_url_tls
        with chromium_with_certificate(browser_folder, site.authority.path, site.admin, url) as browser:
            page = browser.new_page()
            page.open(f"{url}/#/tenants")
            has(page, cell("tenants", TENANT, "tenant"), TENANT)
            page.open(f"{url}/#/")
            page.wait("document.querySelector('[data-panel=messages] canvas')", "the stream of the broker's figures")
            page.wait("document.querySelector('[data-panel=disk]')?.innerText.includes('takes writes')", "the disk")
            assert not page.value("document.querySelector('[data-dialog=login]')")
            assert page.value("sessionStorage.length") == 0
            assert page.complaints == []
