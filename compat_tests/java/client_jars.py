"""Names the Java client that the tests in this folder run."""

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
