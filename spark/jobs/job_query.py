"""Starts the streaming query of a job, watches the query to its end, and checks and acknowledges the messages that it
has read."""

import argparse
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession

from magnetar.spark.jobs.folder_lock import hold_folder
from magnetar.spark.jobs.job_arguments import AVAILABLE_NOW, service_options, source_options, stream_options
from magnetar.spark.jobs.job_outcome import INTERRUPTED, JobOutcome
from magnetar.spark.jobs.progress import QueryProgress, Teller
from magnetar.spark.jobs.published_connector import connector_options
from magnetar.spark.source.checkpoint import Checkpoint, acknowledge
from magnetar.spark.source.options import LATEST, Options, address_of, read_options
from magnetar.spark.source.planner import Planner
from magnetar.spark.source.ranges.bounds import BEFORE_ALL, Bound

if TYPE_CHECKING:
    from magnetar.spark.jobs.storage.checkpoint_copy import CheckpointCopy

Batch = Callable[[DataFrame, int], None]


def stream(made: SparkSession, arguments: argparse.Namespace, **more: str) -> DataFrame:
    """Returns the stream of the topics that the arguments name, split for all cores of the cluster: a job's tables and
    topics take a repeated batch once, whatever its tasks are. `more` are further options of the data source. From now
    on the job holds a lock on the checkpoint's folder. Raises FolderInUse when another run holds that lock."""
    given = stream_options(arguments) | more
    if arguments.source == "connector":
        given = connector_options(given)
    else:
        given["cores"] = str(made.sparkContext.defaultParallelism)
    hold_folder(Checkpoint(arguments.checkpoint).folder)
    return made.readStream.format("pulsar").options(**given).load()


def trigger(arguments: argparse.Namespace) -> dict[str, Any]:
    return {"availableNow": True} if arguments.trigger == AVAILABLE_NOW else {"processingTime": arguments.trigger}


def ends_now(arguments: argparse.Namespace) -> dict[str, Bound]:
    """Returns the positions that an available-now run has to reach: the last message of each partition as of now. For
    an endless run the result is empty."""
    if arguments.trigger != AVAILABLE_NOW:
        return {}
    planner = Planner(read_options(source_options(arguments), streaming=True))
    try:
        return {name: planner.last(name) for name in planner.partitions()}
    finally:
        planner.close()


def has_nothing_to_do(arguments: argparse.Namespace) -> bool:
    """Returns whether a run would read nothing: an available-now run whose checkpoint is committed up to the last
    message of each partition. Also acknowledges what is committed, which a run that was killed may have left out."""
    if arguments.trigger != AVAILABLE_NOW or arguments.source != "python":
        return False
    checkpoint = Checkpoint(arguments.checkpoint)
    committed = checkpoint.committed()
    if not committed or committed != checkpoint.planned():
        return False
    ends = {name: end for name, end in ends_now(arguments).items() if name in committed or end.entry >= 0}
    if ends != committed:
        return False
    acknowledge_committed(arguments)
    return True


def check_reached(arguments: argparse.Namespace, ends: Mapping[str, Bound], outcome: JobOutcome) -> None:
    """Checks that the checkpoint has reached the `ends`. Each partition whose end the checkpoint has not reached
    becomes a problem of the outcome."""
    if ends:
        committed = Checkpoint(arguments.checkpoint).committed()
        if not committed and arguments.starting == LATEST:
            return  # nothing came since the query began at the end
        for name, end in ends.items():
            if committed.get(name, BEFORE_ALL)[:2] < end[:2]:
                outcome.problems.append(f"{name} was read up to {committed.get(name)} instead of {end}")


def acknowledge_committed(arguments: argparse.Namespace) -> None:
    """Acknowledges the last batch of an available-now run. Every other batch is acknowledged when the query asks for
    the batch after it."""
    if arguments.subscription and arguments.source == "python" and arguments.trigger == AVAILABLE_NOW:
        address = address_of(Options(service_options(arguments)))
        acknowledge(address, arguments.subscription, Checkpoint(arguments.checkpoint).committed())


def kept_batch(copy: "CheckpointCopy", batch: Batch) -> Batch:
    """Returns a job's batch function that stores the plan of each batch before the batch is written, and afterwards
    that the batch is done."""

    def run(frame: DataFrame, number: int) -> None:
        copy.keep()
        batch(frame, number)
        copy.keep_done(number)

    return run


def run_query(
    frame: DataFrame,
    batch: Batch,
    arguments: argparse.Namespace,
    ends: Mapping[str, Bound],
    outcome: JobOutcome,
) -> None:
    """Runs a job's streaming query to its end or to Ctrl-C, and acknowledges its last batch. Ctrl-C is a problem of the
    outcome unless the run was to be endless. Raises the query's error."""
    checkpoint = Checkpoint(arguments.checkpoint)
    checkpoint.sweep()
    checkpoint.begin(outcome.job)
    copy = getattr(arguments, "checkpoint_copy", None)
    query = (
        frame.writeStream.foreachBatch(batch if copy is None else kept_batch(copy, batch))
        .option("checkpointLocation", arguments.checkpoint)
        .trigger(**trigger(arguments))
        .start()
    )
    progress = QueryProgress(Teller(arguments.progress, outcome.job))
    try:
        progress.watch(query)
        if copy is not None:
            copy.keep()
        check_reached(arguments, ends, outcome)
    except KeyboardInterrupt:
        query.stop()
        if arguments.trigger == AVAILABLE_NOW:
            outcome.problems.append(INTERRUPTED)
    finally:
        outcome.read += progress.read
    acknowledge_committed(arguments)
