"""The REST calls of the web port: Apache's admin, lookup and statistics paths, a module `*_calls` for each resource.

`routes.py` collects the table of all calls; the other modules are what several resources share (bodies, paths, records,
the rows of policies). This room may use every room of the broker but the binary protocol; only `server/programs` uses
it, which hands the table to the web port.
"""
