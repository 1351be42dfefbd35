"""Small bugs: every mutant that the operators below can make of a module's text.

Some code is left out because no test should pin it: docstrings, texts of log lines and exceptions, annotations,
decorators, assertions, `__slots__` and `__repr__`.
"""

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
SYMMETRIC = {"min", "max"}
"""Functions whose result stays the same when their arguments are swapped."""
UNTESTED_FUNCTIONS = {"__repr__", "__str__"}
LOGGERS = {"log", "_log", "logger", "logging", "warnings"}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change: the bytes of the file from `begin` to `end` become `text`."""

    path: str
    scope: str
    """The names of the class and the function that hold the change, joined by dots."""
    operator: str
    line: int
    last_line: int
    on_import: bool
    """True outside of functions: this code ran on import, before any test."""
    begin: int
    end: int
    text: str

    def applied(self, source: bytes) -> bytes:
        return source[: self.begin] + self.text.encode() + source[self.end :]

    def name(self, source: bytes) -> str:
        """Returns a name that stays the same when other parts of the file change: the function around the change, the
        old code and the new code."""
        before = " ".join(source[self.begin : self.end].decode().split())
        return f"{self.path} {self.scope or '(module)'}: {before} -> {self.text}"


def mutants_of(path: str, source: bytes) -> list[Mutant]:
    finder = _Finder(path, source)
    finder.visit(ast.parse(source))
    return finder.found


class _Finder(ast.NodeVisitor):
    def __init__(self, path: str, source: bytes) -> None:
        self._path = path
        self._lines = source.splitlines(keepends=True)
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))
        self._source = source
        self._scope: list[str] = []
        self.found: list[Mutant] = []

    def _add(self, operator: str, node: ast.expr | ast.stmt, text: str | ast.AST) -> None:
        begin = self._starts[node.lineno - 1] + node.col_offset
        end = self._starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        said = text if isinstance(text, str) else ast.unparse(text)
        if ast.unparse(node) == said:
            return
        if isinstance(text, ast.expr):
            said = f"({said})"
        scope = ".".join(self._scope)
        last = node.end_lineno or node.lineno
        on_import = not self._in_function
        self.found.append(Mutant(self._path, scope, operator, node.lineno, last, on_import, begin, end, said))

    # Which parts of the code are visited.

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        if node.name in UNTESTED_FUNCTIONS:
            return
        self._scope.append(node.name)
        for default in (*node.args.defaults, *filter(None, node.args.kw_defaults)):
            self.visit(default)
        self._body(node.body)
        self._scope.pop()

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._scope.append(node.name)
        self._body(node.body)
        self._scope.pop()

    def _body(self, body: list[ast.stmt]) -> None:
        for statement in body:
            self.visit(statement)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        names = {each.id for each in node.targets if isinstance(each, ast.Name)}
        if "__slots__" in names or "__all__" in names:
            return
        if all(isinstance(each, ast.Attribute | ast.Subscript) for each in node.targets) and self._in_function:
            self._add("assignment dropped", node, "pass")
        self.visit(node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Attribute | ast.Subscript):
            self._add("assignment dropped", node, "pass")
        if type(node.op) in ARITHMETIC and not _is_text(node.value):
            changed = copy.copy(node)
            changed.op = ARITHMETIC[type(node.op)]()
            self._add("arithmetic", node, ast.unparse(changed))
        self.visit(node.value)

    def visit_Expr(self, node: ast.Expr) -> None:
        value = node.value.value if isinstance(node.value, ast.Await) else node.value
        if not isinstance(value, ast.Call) or _is_said(value):
            if isinstance(value, ast.Yield | ast.YieldFrom):
                self.visit(value)
            return
        if self._in_function:
            awaited = "await dropped" if isinstance(node.value, ast.Await) else "call dropped"
            self._add(awaited, node, "pass")
        self.visit(value)

    def visit_Raise(self, node: ast.Raise) -> None:
        self._add("raise dropped", node, "pass")

    def visit_Assert(self, node: ast.Assert) -> None:
        """Assertions are not mutated."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """f-strings are not mutated."""

    # Which changes are made.

    @property
    def _in_function(self) -> bool:
        return bool(self._scope) and not self._scope[-1][0].isupper()

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None:
            if not (isinstance(node.value, ast.Constant) and node.value.value is None):
                self._add("return None", node, "return None")
            self.visit(node.value)

    def visit_Continue(self, node: ast.Continue) -> None:
        self._add("continue", node, "break")

    def visit_Break(self, node: ast.Break) -> None:
        self._add("break", node, "continue")

    def visit_If(self, node: ast.If) -> None:
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return
        self._negate(node.test)
        self.visit(node.test)
        self._body(node.body)
        self._body(node.orelse)

    def visit_While(self, node: ast.While) -> None:
        if not isinstance(node.test, ast.Constant):
            self._negate(node.test)
            self.visit(node.test)
        self._body(node.body)
        self._body(node.orelse)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._negate(node.test)
        self.generic_visit(node)

    def _negate(self, test: ast.expr) -> None:
        is_compared_once = isinstance(test, ast.Compare) and len(test.ops) == 1
        if not is_compared_once and not (isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)):
            self._add("negation", test, ast.UnaryOp(ast.Not(), test))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self._add("negation", node, node.operand)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        changed = copy.copy(node)
        changed.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        self._add("and, or", node, changed)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        for at, operator in enumerate(node.ops):
            changed = copy.copy(node)
            changed.ops = [*node.ops[:at], COMPARISONS[type(operator)](), *node.ops[at + 1 :]]
            self._add("comparison", node, changed)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if type(node.op) in ARITHMETIC and not (_is_text(node.left) or _is_text(node.right)):
            changed = copy.copy(node)
            changed.op = ARITHMETIC[type(node.op)]()
            self._add("arithmetic", node, changed)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if _is_said(node):
            return
        is_ordered = ast.unparse(node.func) not in SYMMETRIC
        if is_ordered and len(node.args) >= 2 and not any(isinstance(each, ast.Starred) for each in node.args[:2]):
            changed = copy.copy(node)
            changed.args = [node.args[1], node.args[0], *node.args[2:]]
            self._add("arguments swapped", node, changed)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._add("constant", node, str(not node.value))
        elif isinstance(node.value, int):
            self._add("constant", node, str(node.value + 1))
            if node.value > 0:
                self._add("constant", node, str(node.value - 1))


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))


def _is_said(call: ast.Call) -> bool:
    """Returns whether the call only logs or only concerns types."""
    names = [each.id for each in ast.walk(call.func) if isinstance(each, ast.Name)]
    return bool(names) and (names[-1] in LOGGERS or names[-1] in {"cast", "TypeVar", "NewType"})


def lines_of(mutants: list[Mutant]) -> Iterator[list[Mutant]]:
    """Groups the mutants by their lines."""
    by_line: dict[int, list[Mutant]] = {}
    for each in mutants:
        by_line.setdefault(each.line, []).append(each)
    yield from by_line.values()
