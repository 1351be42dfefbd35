"""Serves HTTP on the web port: this package owns the connections and their deadlines, finds the route of a call, checks
whether the caller may make the call, and sends the answer.

This package contains no calls. `server/programs` hands it the table of routes, and the calls (`server/admin`) are
built on `web/calls.py`, `web/needs.py` and `web/places.py`. The package may use the packages of the broker, the
namespaces, the configuration, the network, security and the process.
"""
