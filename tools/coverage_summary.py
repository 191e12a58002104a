"""The record of `inflation_coverage.py` as tables: shares by method, and every failure."""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

TOLERANCE = 1e-4


def read(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []


def summary(out: Path) -> str:
    """Markdown: shares by library, subject and method, then every failure with its reason."""
    lines = read(out)
    text = [
        "| library | as | method | tried | families | exact to 1e-4 | gradient along time "
        "| largest difference |",
        "|---|---|---|---|---|---|---|---|",
    ]
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = defaultdict(list)
    failures: dict[str, list[str]] = defaultdict(list)
    for line in lines:
        groups[line["name"].partition("/")[0], line["subject"], line["method"]].append(line)
        if verdict(line) != "exact":
            failures[f"{line['name']}: {verdict(line)}"].append(
                f"{line['subject']} {line['method']}"
            )
    for (library, subject, method), mine in sorted(groups.items()):
        built = [line for line in mine if "error" not in line]
        exact = [line["difference"] for line in built if line["difference"] <= TOLERANCE]
        text.append(
            f"| {library} | {subject} | `{method}` | {len(mine)} "
            f"| {len({line['family'] for line in mine})} "
            f"| {len(exact)} ({len(exact) / len(mine):.1%}) "
            f"| {sum(line['gradient'] for line in built)} | {max(exact, default=0):.1e} |"
        )
    text += ["", "| not exact | as and method |", "|---|---|"]
    text += [f"| {what} | {', '.join(methods)} |" for what, methods in sorted(failures.items())]
    return "\n".join(text)


def verdict(line: dict[str, Any]) -> str:
    if "error" in line:
        return str(line["error"]).replace("|", "/").replace("\n", " ")[:160]
    if not line["difference"] <= TOLERANCE:
        return "not exact"
    return "exact" if line["gradient"] else "exact, but no gradient along time"
