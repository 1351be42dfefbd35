"""Two servers get the same random frames over real sockets and must answer alike: one runs from the sources, the other
from a wheel, whose compiled modules treat values of a wrong class, numbers beyond 64 bits and exceptions in their own
way.

`fields` draws the values of protobuf fields, `scenario` makes frames of clients from them, `player` plays a scenario to
one server and writes down its answers, and `pair` compares. A server that answers otherwise three times in a row,
each time with more patience, differs.

    MAGNETAR_INTERPRETER="$PWD/build/compiled/bin/python -P" make twins MINUTES=5 ARGS="--seed 7"
"""
