"""Which paths, URLs and storage options jobs take, and how each library calls an option."""

import platform
import sys
from argparse import Namespace
from pathlib import Path

import pytest

from magnetar.spark.jobs.job_outcome import JobFailed
from magnetar.spark.jobs.job_places import check_places
from magnetar.spark.jobs.storage.place import Place, place_of
from magnetar.spark.jobs.storage.storage_rules import (
    StorageFault,
    completed_options,
    is_local,
    local_folder,
    parsed_options,
    scheme_of,
    sentence_of,
)


@pytest.mark.parametrize("path", ["/a/b", "a", "./a:b", "file:///a/b"])
def test_paths_and_file_urls_are_local(path: str) -> None:
    assert (is_local(path), scheme_of(path)) == (True, "file")


def test_a_file_url_is_decoded_and_a_path_is_not() -> None:
    assert local_folder("file:///a%20b") == Path("/a b")
    assert local_folder("/a%20b") == Path("/a%20b")
    with pytest.raises(StorageFault, match="s3://lake/a: a local or mounted folder is needed"):
        local_folder("s3://lake/a")


@pytest.mark.parametrize(
    ("path", "url"),
    [
        ("lake", "{folder}/lake"),
        ("./lake", "{folder}/lake"),
        ("/data/lake", "/data/lake"),
        ("file:/data/lake", "file:/data/lake"),
        ("s3://bucket/lake", "s3://bucket/lake"),
    ],
)
def test_a_place_is_the_same_from_every_folder(
    path: str, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Executors are given the driver's place, and work in folders of their own."""
    monkeypatch.chdir(tmp_path)
    place = place_of(path, {})
    monkeypatch.chdir("/")
    assert place.url == url.format(folder=tmp_path)


def test_a_scheme_that_is_not_known_is_named() -> None:
    assert scheme_of("abfss://c@account.dfs.core.windows.net/a") == "abfss"
    with pytest.raises(StorageFault, match=r"ftp://a/b: expected a path, or one of hdfs://, s3://"):
        scheme_of("ftp://a/b")


def test_options_have_one_name_for_each_meaning() -> None:
    given = parsed_options(["AWS_ENDPOINT_URL=http://h", "access_key_id=k=1", "Region=r"])
    assert given == {"aws_endpoint": "http://h", "aws_access_key_id": "k=1", "aws_region": "r"}


@pytest.mark.parametrize("pair", ["secret", "=secret"])
def test_a_wrong_option_is_refused_without_its_value(pair: str) -> None:
    with pytest.raises(StorageFault) as refused:
        parsed_options([pair])
    assert str(refused.value) == "--storage-option: expected KEY=VALUE"


def test_endpoint_and_region_come_from_the_environment_unless_options_say_them() -> None:
    environment = {"AWS_ENDPOINT_URL": "http://h:1", "AWS_REGION": "eu-west-1"}
    found = completed_options("s3a://lake/a", {}, environment)
    assert found == {"aws_endpoint": "http://h:1", "aws_region": "eu-west-1", "allow_http": "true"}
    found = completed_options("s3://lake/a", {"aws_endpoint": "https://other", "aws_region": "x"}, environment)
    assert found == {"aws_endpoint": "https://other", "aws_region": "x"}
    assert completed_options("s3://lake/a", {"aws_endpoint": "https://other"}, {})["aws_region"] == "us-east-1"
    assert completed_options("/a", {}, environment) == completed_options("hdfs://h/a", {}, environment) == {}


def test_an_endpoint_of_azure_allows_http_if_it_says_so() -> None:
    url, plain = "abfss://lake@account.dfs.core.windows.net/a", "http://h:1/account"
    found = completed_options(url, {}, {"AZURE_STORAGE_ENDPOINT": plain, "AWS_ENDPOINT_URL": "http://other"})
    assert found == {"azure_storage_endpoint": plain, "allow_http": "true"}
    found = completed_options(url, {"azure_storage_endpoint": "https://h"}, {"AZURE_STORAGE_ENDPOINT": plain})
    assert found == {"azure_storage_endpoint": "https://h"}


def test_a_place_does_not_show_its_options() -> None:
    place = Place("s3://lake/a/", {"aws_secret_access_key": "secret"})
    assert "secret" not in repr(place)
    assert (place.below("b").url, place.beside("_x").url) == ("s3://lake/a/b", "s3://lake/a_x")
    assert place.below("b").options == place.options


@pytest.mark.parametrize(
    ("given", "package", "sentence"),
    [
        (Namespace(path="s3://lake/a", checkpoint="/a", format="parquet"), "obstore", "s3://lake/a needs obstore"),
        (Namespace(path="/a", checkpoint="gs://lake/a"), "obstore", "gs://lake/a needs obstore"),
        (Namespace(path="/a", sink="s3://lake/a"), "obstore", "s3://lake/a needs obstore"),
        (Namespace(path="/a", checkpoint="/b", format="delta"), "deltalake", "--format delta needs deltalake"),
        (Namespace(path="/a", format="plain", merge="iceberg"), "pyiceberg", "--merge iceberg needs pyiceberg"),
    ],
)
def test_a_missing_package_is_named(
    given: Namespace, package: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(JobFailed) as failed:
        check_places(given)
    assert str(failed.value) == f"{sentence}; install it with: pip install 'magnetar[lake]'"


@pytest.mark.parametrize(("url", "package"), [("s3://lake/a", "obstore"), ("hdfs://h/a", "hdfs-native")])
def test_an_executor_without_the_package_says_which_one_and_where(
    url: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver's packages were looked at before Java started; executors have other machines."""
    for name in [name for name in sys.modules if name.endswith(("storage.object_store", "storage.hadoop_store"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package.replace("-", "_"), None)
    with pytest.raises(StorageFault) as failed:
        Place(url).open()
    assert str(failed.value) == (
        f"{url}: the machine {platform.node()} lacks {package}, which a bundle does not have: "
        f"pip install {package} for {sys.executable} there"
    )


def test_what_hdfs_needs_is_an_extra_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hdfs_native", None)
    with pytest.raises(JobFailed) as failed:
        check_places(Namespace(path="hdfs://h/a"))
    assert str(failed.value) == "hdfs://h/a needs hdfs-native; install it with: pip install 'magnetar[hdfs]'"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("Error: 403: <?xml v?><Error><Message>No</Message></Error>\n\nDebug source:\nx", "Error: 403 (No)"),
        ("Generic S3 error\n  \x1b[31m↳\x1b[0m timed out", "Generic S3 error timed out"),
        ("/a exists\n\tat org.apache.hadoop.X\n\tat org.apache.hadoop.Y", "/a exists"),
        ("GET https://a/b?sv=1&sig=abc%3D&x=2 failed", "GET https://a/b?sv=1&sig=…&x=2 failed"),
    ],
)  # fmt: skip
def test_an_error_of_a_store_is_one_line_without_signatures(text: str, sentence: str) -> None:
    assert sentence_of(text) == sentence
