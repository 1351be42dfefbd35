"""Names the Java clients that the tests in this folder run, and how Java runs them."""

from compat_tests.maven_jars import class_path

CLIENT = (
    ("org.apache.pulsar", "pulsar-client", "4.0.7"),
    ("com.google.protobuf", "protobuf-java", "3.25.5"),
)

TOOLS = (("org.apache.pulsar", "pulsar-client-tools", "4.0.6"),)
"""Apache's command-line tools. The Java client is among what they need."""

PERF = (
    ("org.apache.pulsar", "pulsar-testclient", "4.0.6"),
    ("org.apache.pulsar", "pulsar-broker", "4.0.7"),
)
"""`pulsar-perf`. It loads classes of the broker; those of 4.0.6 need an artifact that Maven Central does not have."""
NOT_OF_PERF = (("org.apache.pulsar", "pulsar-broker"),)
PERF_JAVA = ("java", "-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Runs `pulsar-perf`. The histograms of its commands fill 256 MB when it starts."""

JAVA = ("java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Runs small programs; it starts fast."""


def pulsar_perf(*words: str) -> list[str]:
    """Returns the command line of `pulsar-perf` with these words, such as `transaction`."""
    program = "org.apache.pulsar.testclient.PulsarPerfTestTool"
    # Its first word is a file of settings, which the script of Apache's distribution adds.
    return [*PERF_JAVA, "-cp", class_path("pulsar-perf", PERF, NOT_OF_PERF), program, "/dev/null", *words]


def client_and_admin_jars(version: str) -> str:
    """Returns the class path of an older Java client and admin client."""
    artifacts = ("pulsar-client", "pulsar-client-admin")
    return class_path("pulsar-java-client-and-admin", [("org.apache.pulsar", name, version) for name in artifacts])
