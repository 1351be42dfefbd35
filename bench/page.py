"""docs/PERFORMANCE.md, made of the figures of one run."""

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from bench.report import goal_of, number
from bench.rows import Figures, Row
from bench.sizes import QUICK, Sizes

HEADER = "| what | unit | goal | Magnetar | Apache Pulsar | times better |\n|---|---|---|---|---|---|"

TITLE = """\
# Performance

`python -m bench --page docs/PERFORMANCE.md` makes this page from one run; do not edit it, but `bench/page.py`.
"""

MEASURED = """\
## What is measured

One server with one bookie, its fdatasync before every receipt, and the load on the same machine: two cores that server
and load share are few, so a rate says as much about the load as about the server. CPU seconds for a million messages
count the server alone; what else runs changes them less than the rates, but a busy machine raises them by half. *raw*
is a driver that speaks the wire protocol and costs next to no CPU; other rows use the official client. Messages have
1 KB unless the row says otherwise. {sizes} Latencies count from the moment at which a send was due. Each scenario runs
with one product right after the other, because a machine that others share is quicker in one hour than in the next.

A *goal* is what the project wants; `N × Apache` means N times better than Apache's figure of the same run.
"""

REPEAT = """\
## How to repeat it

```sh
make install
.venv/bin/python -m bench --page docs/PERFORMANCE.md --compiled --peer FOLDER
```

FOLDER holds the jars of Apache Pulsar 4.0.7, as Maven fetches them for `org.apache.pulsar:pulsar-broker`; Java 17 or
later runs them with a heap of 2 GB. Without `--peer` the column shows older figures of Apache, marked with a star.
Without `--compiled` the server runs from the sources. `--only many_topics` measures a row or a scenario, and `--quick`
takes a tenth of the time. Take a machine on which nothing else runs: the line about it says when it was not calm.
"""

FULL = "A rate is the median of {runs} runs, after one that warms up."
QUICK_RUN = "**This was a quick run**: smaller loads, one run each, and {topics} topics where a row says 1,000."

COMPILED = """\
## Compiled modules

`pip install .` compiles the modules that messages run through with mypyc, when the machine has a C compiler
([CONTRIBUTING.md](../CONTRIBUTING.md) says how). Their CPU for a message, over that of the sources, measured by turns
(medians of pairs; the second line on a machine that was busy with other work):

| compiled | 1,000 topics, publish | the same, a Shared tail of each |
|---|---|---|
| the modules of rules alone: append, digest, write cache, encoders | 0.85 | 0.86 |
| with the modules that call them: producer, appender, ledger handle, add path | 0.80 | 0.76 |

After that the dispatchers, consumers, cursors and the reader of frames were compiled, too, the adds of a turn of the
event loop went to the journal together, and states got names that need no look-up in an Enum: 0.75 and 0.76 of the CPU
before, by five pairs of each row on a busy machine.

The journal and the modules of transactions followed. Each module is now a C file of its own, which gcc compiles with
-O2: a third of the time that one file with -O3 took, and code that is as quick (1.004 of its CPU by ten turns).

What a message to one of a thousand topics costs is spread over some forty functions, each of which takes less than 8 %
of it. No single function is worth writing in C, while compiling most of them is.
"""

IDLE_MEMORY = """\
## What an idle server's memory is

Resident megabytes of one process alone, each part imported after those above it (compiled wheel, no other Python on the
machine; the row of the table counts shared pages in part, which is 8 MB less):

| part | MB |
|---|---|
| the interpreter | 9.0 |
| asyncio with OpenSSL, logging, dataclasses, uvloop | 12.8 |
| protobuf and the messages of Pulsar | 4.5 |
| SQLite, and RocksDB, whose library touches 6 MB of its own file when it is loaded | 8.2 |
| orjson, pyroaring, codecs and other small libraries | 4.9 |
| the part of aiohttp that serves requests | 8.4 |
| some 550 modules of Magnetar, buffers, threads | 22 |

A server of these libraries without a line of Magnetar therefore has 48 MB, 40 as the row counts. What most servers
never use is imported by the first client that wants it: WebSockets, the calls for leaks, `why` and publishing over
HTTP, and what shows messages.
"""

WHICH_PYTHON = """\
## Which Python

The server runs on Python 3.11 to 3.14. How the interpreter was built counts as much as its version: pyenv builds
without CPython's profile-guided optimisation unless it is told otherwise
(`PYTHON_CONFIGURE_OPTS="--enable-optimizations --with-lto"`), while distributions and the images of containers have it.
CPU for a message over that of the first line, by turns with the same code compiled for each, medians of eight and six
turns on a calm machine (on a busy one the distance was twice as large):

| Python | 1,000 topics, publish | the same, a Shared tail of each |
|---|---|---|
| 3.11.7, built by pyenv without optimisations | 1 | 1 |
| 3.11.2 of Debian 12 | 0.92 | 0.95 |
| 3.13.18 of Debian unstable | 0.88 | 0.90 |
| 3.14.10 of Debian unstable | 0.88 | 0.90 |

A free-threaded interpreter, on paper, would change little at first: one event loop owns all topics of a process, and
the threads beside it (journal, checkpoint) already spend most of their time outside of the interpreter's lock. It
would take away the waits of the loop for that lock after each sync; several loops in one process would need another
design. More cores are used by more processes ([ONE_MACHINE.md](ONE_MACHINE.md)).
"""

NOT_THE_RIGHT_CHOICE = """\
## Where Magnetar is not the right choice

- **One process on many cores.** A broker is one event loop: it uses one core and a part of a second one. Apache's
  broker uses all of them. Here a large machine takes a cluster of processes, each of which owns a part of the topics.
- **One topic that is hotter than a core.** A topic belongs to one loop. Unbatched, that is the rate in the table; with
  batches it is hardly ever the limit.
- **Many topics with a few messages each, at the highest rate.** Groups do not form then, and the rows of 1,000 topics
  say what is left of the lead. Apache's broker uses both cores there, and publishes about as many messages a second.
- **A server that is warm for days and never restarts.** Start and memory, where the distance to a JVM is largest,
  count for little there.
- **Features that are missing**: `compat_tests/NOTES.md` lists every deviation.
"""


@dataclass(frozen=True, slots=True)
class Run:
    """What the page says about a run besides its figures."""

    machine: str
    sizes: Sizes
    compiled: bool
    peer_measured: bool


def page(rows: Sequence[Row], ours: Figures, theirs: Figures | None, run: Run) -> str:
    """Returns the page. Rows that have no figure are left out."""
    sizes = QUICK_RUN if run.sizes == QUICK else FULL
    form = "with compiled modules" if run.compiled else "from the sources, nothing compiled"
    peer = "Apache Pulsar 4.0.7 standalone, in the same run" if run.peer_measured else "older figures of Apache (*)"
    parts = [
        TITLE,
        f"## The figures\n\n{date.today():%d %B %Y}. {run.machine}. Python {platform.python_version()}, "
        f"{platform.system()} {platform.machine()}. Magnetar {form}; {peer}.\n\n{table(rows, ours, theirs)}",
        MEASURED.format(sizes=sizes.format(runs=run.sizes.runs, topics=run.sizes.topics)),
        REPEAT,
        COMPILED,
        IDLE_MEMORY,
        WHICH_PYTHON,
        NOT_THE_RIGHT_CHOICE,
    ]
    return "\n".join(parts)


def table(rows: Sequence[Row], ours: Figures, theirs: Figures | None) -> str:
    """Returns the figures as a table of Markdown."""
    lines = [HEADER]
    for row in rows:
        if row.key not in ours:
            continue
        mine, peer = ours[row.key], row.apache if theirs is None else theirs.get(row.key)
        star = r"\*" if theirs is None else ""
        cells = (
            row.title,
            row.unit,
            goal_of(row),
            number(mine),
            "" if peer is None else number(peer) + star,
            "" if peer is None else number(row.ratio(mine, peer)),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
