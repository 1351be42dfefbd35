"""A Spark session that runs the code which another process sends. It runs in an environment of its own and imports
nothing of ours.

Each line on stdin is a JSON string of Python code. What the code leaves in `result` comes back as a line on stdout,
{"result": …}, or {"error": …} when it fails. Names that the code binds are there for the next line. Arguments: the
connector's jar, NAME=VALUE….
"""

import json
import os
import sys
import traceback
from typing import Any

os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what Java prints on stdout must not pass for an answer

from pyspark.sql import SparkSession  # noqa: E402

builder = (
    SparkSession.builder.master("local[2]")
    .config("spark.jars", sys.argv[1])
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "2")
    .config("spark.driver.memory", "1g")
    .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    .config("spark.sql.session.timeZone", "UTC")
)
for setting in sys.argv[2:]:
    builder = builder.config(*setting.split("=", 1))
session = builder.getOrCreate()
session.sparkContext.setLogLevel("ERROR")
names: dict[str, Any] = {"session": session}
print(json.dumps({"result": "ready"}), file=answers, flush=True)
for line in sys.stdin:
    names["result"] = None
    try:
        exec(json.loads(line), names)
        answer: dict[str, Any] = {"result": names["result"]}
    except Exception:
        answer = {"error": traceback.format_exc()[-4000:]}
    print(json.dumps(answer, default=str), file=answers, flush=True)
