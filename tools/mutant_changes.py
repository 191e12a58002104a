"""Small wrong changes of the expressions of a file, for `tools/mutants.py`."""

import ast
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult, ast.And: ast.Or, ast.Or: ast.And,
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
    ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
# Left out, because no result depends on them: texts, placement, assertions, and sizes that trade
# memory for time.
SILENT_CALLS = {"setting", "field", "warn", "warning", "info", "debug", "print", "add_argument"}
SILENT_KEYWORDS = {
    "daemon", "device", "fused", "indent", "memory_format", "non_blocking", "on_progress",
    "pin_memory", "set_to_none", "strict", "unit",
}  # fmt: skip
SILENT_NAMES = {
    "__all__", "BYTES_PER_GROUP", "CACHE_BYTES", "COLUMNS_AT_ONCE", "LARGEST_AUTOMATIC_BATCH",
    "LARGEST_AUTO_BATCH", "LONGEST_MATRIX", "LONGEST_WAIT_SECONDS", "MAX_ENTRIES",
    "MOST_IDLE_POOLS", "NUM_SHOWN", "PAYLOADS_AHEAD", "PER_MATRIX_ENTRY", "PER_PRODUCT",
    "PER_SPECTRUM_PRODUCT", "PER_TRANSFORMED_SAMPLE", "RAW_BYTES_AT_A_TIME", "RESAMPLES_AT_ONCE",
    "ROWS_PER_GROUP", "SECONDS_TO_END",
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One changed expression of one file."""

    file: str
    line: int
    before: str
    after: str
    start: int  # offsets into the file, in characters
    end: int


def mutants_of(path: Path, root: Path) -> Iterator[Mutant]:
    """Every mutant of a file below `root`, in the order of its text."""
    text = path.read_text()
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line.encode()))
    raw = text.encode()
    for node in _expressions(ast.parse(text)):
        for changed in _changes(node):
            assert node.end_lineno is not None
            assert node.end_col_offset is not None
            first = starts[node.lineno - 1] + node.col_offset
            last = starts[node.end_lineno - 1] + node.end_col_offset
            yield Mutant(
                path.relative_to(root).as_posix(),
                node.lineno,
                ast.unparse(node),
                ast.unparse(changed),
                len(raw[:first].decode()),
                len(raw[:last].decode()),
            )


def _expressions(node: ast.AST) -> Iterator[ast.expr]:
    """Expressions that decide what is computed: no types, messages, decorators or docstrings."""
    if isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr | ast.Import | ast.ImportFrom):
        return
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return
    if isinstance(node, ast.Call) and _name(node.func) in SILENT_CALLS:
        return
    if isinstance(node, ast.keyword) and node.arg in SILENT_KEYWORDS:
        return
    if isinstance(node, ast.Assign | ast.AnnAssign):
        targets: list[ast.expr] = node.targets if isinstance(node, ast.Assign) else [node.target]
        if any(isinstance(target, ast.Name) and target.id in SILENT_NAMES for target in targets):
            return
    if isinstance(node, ast.expr):
        yield node
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns", "decorator_list", "bases"}:
            continue
        children = value if isinstance(value, list) else [value]
        for child in children:
            if isinstance(child, ast.AST):
                yield from _expressions(child)


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _changes(node: ast.expr) -> Iterator[ast.expr]:
    match node:
        case ast.BinOp(op=op) | ast.BoolOp(op=op) if type(op) in SWAPPED:
            if not any(isinstance(part, ast.Constant) and isinstance(part.value, str)
                       for part in ast.walk(node)):  # fmt: skip
                yield _with(node, op=SWAPPED[type(op)]())
        case ast.Compare(ops=[op]) if type(op) in SWAPPED:
            yield _with(node, ops=[SWAPPED[type(op)]()])
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield operand
        case ast.IfExp(body=body, orelse=orelse):
            yield _with(node, body=orelse, orelse=body)
        case ast.Constant(value=bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(value=int() as value):
            yield ast.Constant(value + 1)
        case ast.Constant(value=float() as value):
            yield ast.Constant(2 * value or 1.0)
        case ast.Call(keywords=keywords):
            for index, keyword in enumerate(keywords):
                if keyword.arg in SILENT_KEYWORDS:
                    continue
                yield _with(node, keywords=keywords[:index] + keywords[index + 1 :])


def _with(node: ast.expr, **fields: object) -> ast.expr:
    changed = deepcopy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed
