"""An S3 service in a process of its own, which is moto's, and the tables in it as other readers see them."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping
from typing import Any, Self

import boto3
import deltalake
import pyarrow as pa
import pyarrow.dataset as pds
from pyarrow import fs
from pyiceberg.table import StaticTable

BUCKET = "lake"
KEY, SECRET = "magnetar-key", "magnetar-secret-3c1f"
START_SECONDS = 60
ATTEMPTS = 5


class S3Server:
    """The service, with one bucket. It forgets everything at its end."""

    def __enter__(self) -> Self:
        for _ in range(ATTEMPTS):
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                port = free.getsockname()[1]
            command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
            self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.endpoint = f"http://127.0.0.1:{port}"
            if self._answers():
                break
        self.client = boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            aws_access_key_id=KEY,
            aws_secret_access_key=SECRET,
        )
        self.client.create_bucket(Bucket=BUCKET)
        return self

    def _answers(self) -> bool:
        """Waits until the service answers. Returns False when it ended instead, because another took its port."""
        deadline = time.monotonic() + START_SECONDS
        while self._process.poll() is None:
            try:
                urllib.request.urlopen(f"{self.endpoint}/moto-api/", timeout=START_SECONDS).close()
            except OSError:
                assert time.monotonic() < deadline, "moto does not answer"
                time.sleep(0.1)
            else:
                return True
        return False

    def __exit__(self, *exception: object) -> None:
        self._process.kill()
        self._process.wait()

    def url(self, name: str) -> str:
        return f"s3://{BUCKET}/{name}"

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables by which a process finds the service."""
        given = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_ENDPOINT_URL": self.endpoint}
        kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        return {**kept, **given}

    @property
    def options(self) -> dict[str, str]:
        """The storage options by which a process finds the service without its environment."""
        return {"aws_access_key_id": KEY, "aws_secret_access_key": SECRET, "aws_endpoint": self.endpoint}

    @property
    def arguments(self) -> list[str]:
        """The same as arguments of a job."""
        return [part for name, value in self.options.items() for part in ("--storage-option", f"{name}={value}")]

    def names(self, prefix: str = "") -> list[str]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
        return [each["Key"] for page in pages for each in page.get("Contents", ())]

    def read(self, name: str) -> bytes:
        data: bytes = self.client.get_object(Bucket=BUCKET, Key=name)["Body"].read()
        return data

    def write(self, name: str, data: bytes) -> None:
        self.client.put_object(Bucket=BUCKET, Key=name, Body=data)

    def delete(self, prefix: str) -> None:
        for name in self.names(prefix):
            self.client.delete_object(Bucket=BUCKET, Key=name)

    def table(self, kind: str, place: str, name: str) -> pa.Table:
        """Returns the rows of the table at a place in the bucket, as the tools read them that people use for such
        tables. `name` is the name of an Iceberg table."""
        if kind == "delta":
            options = {**self.options, "aws_region": "us-east-1", "allow_http": "true"}
            return deltalake.DeltaTable(self.url(place), storage_options=options).to_pyarrow_table()
        if kind == "iceberg":
            folder = f"{place}/{name.replace('.', '/')}/metadata"
            number = int(self.read(f"{folder}/version-hint.text"))
            location = self.url(f"{folder}/v{number}.metadata.json")
            properties: dict[str, Any] = {
                "s3.endpoint": self.endpoint,
                "s3.region": "us-east-1",
                "s3.access-key-id": KEY,
                "s3.secret-access-key": SECRET,
            }
            return StaticTable.from_metadata(location, properties).scan().to_arrow()
        files = fs.S3FileSystem(
            access_key=KEY, secret_key=SECRET, endpoint_override=self.endpoint, region="us-east-1", scheme="http"
        )
        found = pds.dataset(f"{BUCKET}/{place}", filesystem=files, format="parquet", partitioning="hive")
        columns = pa.unify_schemas([found.schema, *(each.physical_schema for each in found.get_fragments())])
        return found.replace_schema(columns).to_table()

    def stored_text(self) -> str:
        """Returns all that is stored, as text, and all names."""
        return json.dumps([(name, self.read(name).decode("latin-1")) for name in self.names()])
