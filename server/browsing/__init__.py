"""Looks into stored messages for people: takes entries apart, decodes values by their schema, joins chunks, and tells
one message's story. It uses topics, the schema registry and `pulsar_proto/values`; only `server/admin` uses it."""
