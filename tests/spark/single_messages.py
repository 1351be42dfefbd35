"""Messages outside of batches, as their entries hold them."""

from hypothesis import strategies as st

from pulsar_proto.pb import pulsar_api_pb2 as pb

singles: st.SearchStrategy[dict[str, object]] = st.builds(
    dict,
    sequence_id=st.none() | st.integers(0, 2**40),
    event_time=st.none() | st.integers(1, 2**40),
    partition_key=st.none() | st.text(max_size=8),
    null_value=st.none() | st.booleans(),
    null_partition_key=st.none() | st.booleans(),
    compacted_out=st.none() | st.booleans(),
    properties=st.dictionaries(st.text(max_size=4), st.text(max_size=4), max_size=2),
)


def single(fields: dict[str, object]) -> pb.SingleMessageMetadata:
    message = pb.SingleMessageMetadata(payload_size=0)
    for name, value in fields.items():
        if name == "properties":
            assert isinstance(value, dict)
            for key, text in value.items():
                message.properties.add(key=key, value=text)
        elif value is not None:
            setattr(message, name, value)
    return message
