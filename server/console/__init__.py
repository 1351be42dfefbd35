"""The web console: the files in `static/` that a browser loads, and what serves them; a page gets every number by REST
calls that are there for everybody.

This room uses nothing but `server/web`. `server/admin` imports it and has the routes of its files.
"""
