"""An S3 service in a process of its own, which is moto's."""

import sys

from pyarrow import fs

from compat_tests.spark.store_process import StoreProcess
from compat_tests.spark.store_server import BUCKET, StoreServer

KEY = "magnetar-key"
REGION = "us-east-1"


class S3Server(StoreServer):
    """The service, with one bucket."""

    secret = "magnetar-secret-3c1f"
    variables = ("AWS_",)

    def start(self) -> None:
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "{port}"]
        self._process = StoreProcess(command, "/moto-api/")
        self.endpoint = self._process.endpoint
        self.files = fs.S3FileSystem(
            access_key=KEY,
            secret_key=self.secret,
            endpoint_override=self.endpoint,
            region=REGION,
            allow_bucket_creation=True,
        )
        self.files.create_dir(BUCKET)

    def end(self) -> None:
        self._process.end()

    def url(self, name: str) -> str:
        return f"s3://{BUCKET}/{name}"

    @property
    def login(self) -> dict[str, str]:
        return {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": self.secret, "AWS_ENDPOINT_URL": self.endpoint}

    @property
    def options(self) -> dict[str, str]:
        return {"aws_access_key_id": KEY, "aws_secret_access_key": self.secret, "aws_endpoint": self.endpoint}

    @property
    def delta_options(self) -> dict[str, str]:
        return {**super().delta_options, "aws_region": REGION}
