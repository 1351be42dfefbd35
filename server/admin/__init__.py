"""The REST calls of the web port: Apache's admin, lookup and statistics paths, a module `*_calls` for each resource.

`routes.py` collects the table of all calls. The remaining modules hold what several resources share (bodies, paths,
records, the rows of policies). This package may use every package of the broker except the binary protocol. Only
`server/programs` imports this package; it hands the table of calls to the web port.
"""
