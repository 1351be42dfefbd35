"""Azure's storage in a process of its own, which is Microsoft's Azurite: from npm, once for each user into a cache
folder outside the project."""

from pathlib import Path

from pyarrow import fs

from compat_tests.npm_packages import node_modules
from compat_tests.spark.store_process import StoreProcess
from compat_tests.spark.store_server import BUCKET, StoreServer

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
    # A prefix keeps npm from taking a package.json of a folder above for the project.
    arguments = ["install", "--ignore-scripts", "--prefix", ".", f"azurite@{VERSION}"]
    return node_modules("azurite", VERSION, arguments, INSTALL_SECONDS) / ".bin" / "azurite-blob"
