"""The options of jobs: which values end a job, and which go together."""

import argparse
from collections.abc import Callable

import pytest

from magnetar.spark.jobs.audit import audit
from magnetar.spark.jobs.job_arguments import check_sql
from magnetar.spark.jobs.job_outcome import JobFailed
from magnetar.spark.jobs.lake.lake_ingest import main
from magnetar.spark.jobs.replay import replay
from magnetar.spark.jobs.snapshot import snapshot_table
from magnetar.spark.jobs.window import window_agg


@pytest.mark.parametrize(
    ("job", "option", "text", "kind"),
    [
        (main, "--max-messages", "none", "a whole number"),
        (main, "--max-bytes", "1.5", "a whole number"),
        (window_agg.main, "--max-messages", "-1", "a whole number"),
        (snapshot_table.main, "--vacuum", "-1", "a number"),
        (snapshot_table.main, "--vacuum", "nan", "a number"),
        (replay.main, "--rate", "-1", "a whole number"),
        (audit.main, "--interval", "inf", "a number"),
        (audit.main, "--max-skew", "much", "a number"),
    ],
)
def test_a_number_that_is_none_ends_a_job_as_every_value_that_it_cannot_use(
    job: Callable[[list[str]], int], option: str, text: str, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert job([option, text]) == 1
    assert capsys.readouterr().err.endswith(f": {option}: '{text}' is not {kind} of at least 0\n")


@pytest.mark.parametrize(
    ("job", "more", "complaint"),
    [
        (main, ["--compact-files"], "--compact-files needs a local or mounted folder, for s3://lake/t take --format"),
        (snapshot_table.main, [], "--merge parquet-overwrite needs a local or mounted folder, for s3://lake/t take"),
    ],
)
def test_what_a_store_does_not_have_is_told_before_anything_is_read(
    job: Callable[[list[str]], int], more: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    place = ["--service-url", "pulsar://127.0.0.1:1", "--topic", "t", "--path", "s3://lake/t", "--checkpoint", "c"]
    with pytest.raises(SystemExit) as ended:
        job([*place, *more])
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert complaint in line


@pytest.mark.parametrize(
    ("sql", "fault"),
    [
        ("a = 'b' and (c[1] = \"it's\" or `it's` > 1) -- it's", ""),
        (r"a = 'it\'s' and b rlike r'\d\'", ""),
        ("a = 'b", "a ' has no end"),
        ("a = `b", "a ` has no end"),
        ("sum(a[1)", "a ) closes nothing"),
        ("sum(a", "a ) is missing"),
        ("a = 'b')", "a ) closes nothing"),
    ],
)
def test_sql_whose_quotes_or_brackets_are_not_closed_is_told_before_java_starts(sql: str, fault: str) -> None:
    given = argparse.Namespace(filter=sql, transform={})
    if not fault:
        check_sql(given)
        return
    for arguments, option in (
        (given, "--filter"),
        (argparse.Namespace(key=sql), "--key"),
        (argparse.Namespace(transform={"n": sql}), "--transform n"),
    ):
        with pytest.raises(JobFailed) as raised:
            check_sql(arguments)
        assert str(raised.value) == f"{option}: {fault} in: {sql}"
