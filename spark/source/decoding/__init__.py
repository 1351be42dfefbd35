"""Turns the bytes that a broker sends into Arrow columns. Nothing here waits or connects. This package may use `ranges`
and `pulsar_proto`. The package `client` uses its frames and entries, `columns` its rows, and `range_reader` both.

Most entries go the fast way, thousands at once: `inbox` → `entry_block` → `block_decoder`, by `wire_scan` and
`batch_walk`. Unusual entries go one by one through `row_decoder`. Both ways end in `row_columns`.
"""
