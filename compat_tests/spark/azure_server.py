"""Azure's storage in a process of its own, which is Microsoft's Azurite: from npm, once for each user into a cache
folder outside the project."""

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

from pyarrow import fs

from compat_tests.spark.store_process import StoreProcess
from compat_tests.spark.store_server import BUCKET, StoreServer
from compat_tests.unavailable import unavailable

VERSION = "3.37.0"
INSTALL_SECONDS = 600
ACCOUNT = "devstoreaccount1"


class AzureServer(StoreServer):
    """The service, with one container."""

    secret = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
    """Azurite's own account and key, which its documentation names."""
    variables = ("AZURE_",)

    def start(self) -> None:
        address = ["--blobHost", "127.0.0.1", "--blobPort", "{port}"]
        how = ["--inMemoryPersistence", "--silent", "--skipApiVersionCheck"]
        self._process = StoreProcess(["node", _azurite(), *address, *how], "/")
        self.endpoint = f"{self._process.endpoint}/{ACCOUNT}"
        authority = self._process.endpoint.removeprefix("http://")
        self.files = fs.AzureFileSystem(
            ACCOUNT,
            account_key=self.secret,
            blob_storage_authority=authority,
            dfs_storage_authority=authority,
            blob_storage_scheme="http",
            dfs_storage_scheme="http",
        )
        self.files.create_dir(BUCKET)

    def end(self) -> None:
        self._process.end()

    def url(self, name: str) -> str:
        return f"abfs://{BUCKET}@{ACCOUNT}.dfs.core.windows.net/{name}"

    @property
    def login(self) -> dict[str, str]:
        return {
            "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": self.secret,
            "AZURE_STORAGE_ENDPOINT": self.endpoint,
        }

    @property
    def options(self) -> dict[str, str]:
        return {name.lower(): value for name, value in self.login.items()}


def _azurite() -> Path:
    """Returns Azurite's program. Skips the test when it cannot be had."""
    if shutil.which("npm") is None:
        unavailable("needs npm to install Azurite")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "magnetar"
    cache.mkdir(parents=True, exist_ok=True)
    folder = cache / f"azurite-{VERSION}"
    with open(cache / "azurite.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # test runs in parallel install once
        if not folder.exists():
            building = folder.with_suffix(".building")
            shutil.rmtree(building, ignore_errors=True)
            command = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(building)]
            try:
                done = subprocess.run(
                    [*command, f"azurite@{VERSION}"], capture_output=True, text=True, timeout=INSTALL_SECONDS
                )
            except subprocess.TimeoutExpired:
                unavailable(f"Azurite did not come within {INSTALL_SECONDS} s")
            if done.returncode != 0:
                unavailable(f"Azurite cannot be installed: {done.stderr[-500:]}")
            building.rename(folder)
    return folder / "node_modules" / ".bin" / "azurite-blob"
