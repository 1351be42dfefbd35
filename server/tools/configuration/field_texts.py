"""Reads the descriptions of settings from the code: the string below each field of a settings class."""

import ast
import inspect
import textwrap
from functools import cache


@cache
def field_texts(kind: type) -> dict[str, str]:
    """Returns the description of each field of a class that has one, on one line. Python keeps no docstrings of fields,
    so this reads the source of the class, which every installation has."""
    body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    assert isinstance(body, ast.ClassDef)
    found: dict[str, str] = {}
    for statement, below in zip(body.body, body.body[1:], strict=False):
        if (
            isinstance(statement, ast.AnnAssign)
            and isinstance(statement.target, ast.Name)
            and isinstance(below, ast.Expr)
            and isinstance(below.value, ast.Constant)
            and isinstance(below.value.value, str)
        ):
            found[statement.target.id] = " ".join(below.value.value.split())
    return found
