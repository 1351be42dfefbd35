"""`magnetar admin`: pulsar-admin's grammar, from tables, for any Pulsar.

`groups.py` names the tables of each group; a row of a table (`command_table.Command`) is all that is known about a
command: its arguments, its REST call, what it prints, its help and examples. The parser, the help, the reference page
and the completion are made from the rows. This package uses `server/tools/connection` and, for stored messages,
`pulsar_proto`.
"""
