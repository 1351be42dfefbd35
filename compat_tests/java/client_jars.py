"""Names the Java client that the tests in this folder run."""

CLIENT = (
    ("org.apache.pulsar", "pulsar-client", "4.0.7"),
    ("com.google.protobuf", "protobuf-java", "3.25.5"),
)
