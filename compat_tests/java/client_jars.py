"""Names the Java client that the tests in this folder run."""

CLIENT = (
    ("org.apache.pulsar", "pulsar-client", "4.0.7"),
    ("com.google.protobuf", "protobuf-java", "3.25.5"),
)

TOOLS = (("org.apache.pulsar", "pulsar-client-tools", "4.0.6"),)
"""Apache's command-line tools. The Java client is among what they need."""

JAVA = ("java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Runs small programs; it starts fast."""
