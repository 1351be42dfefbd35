"""Hands old objects back to Python's garbage collector, a few at a time.

A collection of all objects takes most of a second with ten thousand topics. But when a topic is unloaded it is known
where garbage may be: among the parts of the topic, which refer to each other. `look_again` finds them and puts them
among the new objects, where the next collection of new objects frees them if nothing else refers to them. The collector
decides by itself what is garbage, so objects that are still in use only get a second look for nothing.

Python has no call for this, but the interpreter's C interface, which is stable, has: an object that is taken out of the
collector's lists and put into them again counts as new.

This module is imported late, and on a thread, because most servers never need ctypes.
"""

import ctypes
import gc
import sys
from types import CodeType, FrameType, FunctionType, ModuleType

NEIGHBOURS_MAX = 64
"""An object that more objects than this refer to, or that refers to more, belongs to the server and not to one topic:
a service that all topics use, or a table of topics. The walk does not go through it. What such a table keeps alive is
freed by a full collection, as is a topic with so many subscriptions."""

OBJECTS_MAX = 1_000
"""How many objects one call looks at, which takes a millisecond or two. A topic with a subscription has 140 parts, and
each further subscription some 30, but the walk also meets parts of the server."""

_SHARED = (type, ModuleType, CodeType, FrameType)
"""The kinds of objects that belong to the program."""

_untrack = ctypes.pythonapi.PyObject_GC_UnTrack
_track = ctypes.pythonapi.PyObject_GC_Track
for _call in (_untrack, _track):
    _call.argtypes, _call.restype = (ctypes.py_object,), None


def look_again(root: object) -> int:
    """Makes the collector look at `root`, and at what belongs to it, as at new objects. Returns how many objects these
    are. Called on any thread, while no other thread may drop the last reference to `root`."""
    parts = _parts_of(root)
    for part in parts:
        _untrack(part)
        _track(part)
    return len(parts)


def _parts_of(root: object) -> list[object]:
    """Returns `root` and the objects that can be reached from it, the nearest ones first."""
    found, seen = [root], {id(root)}
    for part in found:
        if len(found) >= OBJECTS_MAX:
            break
        # What a function refers to is its module, apart from its closure.
        near = [part.__closure__] if isinstance(part, FunctionType) else gc.get_referents(part)
        if len(near) > NEIGHBOURS_MAX and part is not root:
            continue
        for each in near:
            if id(each) in seen or not gc.is_tracked(each) or isinstance(each, _SHARED):
                continue
            if sys.getrefcount(each) <= NEIGHBOURS_MAX:
                seen.add(id(each))
                found.append(each)
    return found
