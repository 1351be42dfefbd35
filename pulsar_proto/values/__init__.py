"""Values of messages by their schema: bytes to what JSON shows. It uses fastavro and no other room of ours but
`pulsar_proto`; the tools for messages and the broker's browser of messages use it."""
