"""Turns the bytes that a broker sends into Arrow columns. Nothing here waits or connects. This package may use `ranges`
and `pulsar_proto`. The package `client` uses the frames and entries of this package, and `columns` uses the rows.
`range_reader` uses both entries and rows: it has the entries decoded into rows.

Most entries go the fast way, thousands at once: `inbox` → `entry_block` → `block_decoder`, by `wire_scan` and
`batch_walk`. Unusual entries go one by one through `row_decoder`. Both ways end in `row_columns`.
"""
