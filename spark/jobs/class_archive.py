"""Where the archive of Java's classes is that lets jobs start sooner, and Java's options for it.

Without it Java finds, checks and compiles some 20,000 classes of Spark's anew at each start, in jars that it searches
one after the other. `prepare` makes the archive (class data sharing, JEP 350). Java itself compares the archive with
its own version and with the jars, and starts without it when they differ.
"""

import hashlib
import os
import shutil
from pathlib import Path

import pyspark

QUIET = "-Xlog:cds*=off"
"""Java would print a line for each class that it cannot archive, and when an archive does not fit."""


def archive_file() -> Path | None:
    """Returns the file of the archive for this Spark and the Java that Spark would start, in the user's cache folder,
    whether it is there or not. Returns None when there is no Java."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if found is None or not os.path.exists(found):
        return None
    java = Path(found).resolve()
    spark = os.environ.get("SPARK_HOME") or str(Path(pyspark.__file__).parent)
    parts = f"{java} {java.stat().st_mtime_ns} {spark} {pyspark.__version__}"
    name = f"spark-{pyspark.__version__}-{hashlib.sha256(parts.encode()).hexdigest()[:12]}.jsa"
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache, "magnetar", name)


def java_options() -> list[str]:
    """Returns Java's options for a start with the archive; none when nobody has made one."""
    archive = archive_file()
    if archive is None or not archive.exists():
        return []
    return [_quoted(f"-XX:SharedArchiveFile={archive}"), QUIET]


def recording_options(archive: Path) -> list[str]:
    """Returns Java's options for a run at whose end Java writes the archive of all classes that it has used."""
    return [_quoted(f"-XX:ArchiveClassesAtExit={archive}"), QUIET]


def _quoted(option: str) -> str:
    """Returns an option as Spark's launcher takes it in a list of options with blanks between them."""
    return f'"{option}"'
