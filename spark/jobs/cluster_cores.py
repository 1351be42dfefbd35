"""How many tasks the cluster of a job's session runs at once, and the settings that follow from it."""

import time

from pyspark import SparkContext
from pyspark.sql import SparkSession

from magnetar.spark.shipping.cluster_rules import ExecutorsSettle, is_one_machine, may_change

SHUFFLE_SETTING = "spark.sql.shuffle.partitions"
QUIET_SECONDS, SECONDS_MAX = 1.0, 120.0
"""Without any executor a job would wait for ever at its first query anyway."""
LOOK_SECONDS = 0.1
ROWS_OF_TASK = 2_000_000
"""A task that sorts so many message ids takes a few seconds, and keeps them in memory."""


def spread_over_cores(session: SparkSession) -> None:
    """Gives shuffles as many tasks as the cluster runs at once, unless the user or an earlier call said how many. With
    Spark's default of 200 a small batch of a streaming query takes far longer. Has no effect where the number of
    executors follows the work."""
    context = session.sparkContext
    if not context.getConf().contains(SHUFFLE_SETTING) and not may_change(dict(context.getConf().getAll())):
        session.conf.set(SHUFFLE_SETTING, str(cores_of(context)))


def spread_over_rows(session: SparkSession, rows: int) -> None:
    """Gives the shuffles of a query over so many rows more tasks, if it takes more than there are cores to have no more
    than ROWS_OF_TASK rows in a task. Has no effect when the user said how many tasks there are."""
    if not session.sparkContext.getConf().contains(SHUFFLE_SETTING):
        tasks = max(int(session.conf.get(SHUFFLE_SETTING) or 1), -(-rows // ROWS_OF_TASK))
        session.conf.set(SHUFFLE_SETTING, str(tasks))


def cores_of(context: SparkContext) -> int:
    """Returns how many tasks run at once on all executors (`spark.default.parallelism`, if it is set). Executors come
    one by one after the start of a session, so this first waits until no more of them come."""
    if not is_one_machine(context.master or ""):
        java = context._jsc.sc()
        settle = ExecutorsSettle(time.monotonic(), QUIET_SECONDS, SECONDS_MAX)
        while not settle.are_there(time.monotonic(), java.getExecutorMemoryStatus().size() - 1):  # one is the driver
            time.sleep(LOOK_SECONDS)
    return context.defaultParallelism
