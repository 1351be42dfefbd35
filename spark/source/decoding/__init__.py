"""The bytes that a broker sends, turned into Arrow columns. Nothing here waits or connects: it may use `ranges` and
`pulsar_proto`, and is used by `client` (frames and entries), `columns` (rows) and the reader of a range.

Most entries go the fast way, thousands at once: `inbox` → `entry_block` → `block_decoder`, by `wire_scan` and
`batch_walk`. What is unusual goes one by one through `row_decoder`. Both ways end in `row_columns`.
"""
