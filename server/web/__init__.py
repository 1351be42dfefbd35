"""The shell of the web port: connections, deadlines, who may call, finding the route, and the answer as HTTP.

This room knows no call by itself: `server/programs` hands it the table of routes, and the calls (`server/admin`) are
built on `web/calls.py` and `web/needs.py`. The room may use the rooms of the broker, the configuration, the network,
security and the process.
"""
