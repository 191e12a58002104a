"""The record of `inflation_coverage.py` as tables: shares by method, and every failure."""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

TOLERANCE = 1e-4


def read(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []


def summary(out: Path) -> str:
    """Markdown: what counted of what was tried, by method; then every failure with its reason."""
    lines = read(out)
    methods = list(dict.fromkeys(line["method"] for line in lines))
    groups: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    failures: dict[str, list[str]] = defaultdict(list)
    for line in lines:
        groups[line["name"].partition("/")[0], line["subject"]].append(line)
        if verdict(line) != "exact":
            failures[f"{line['name']}: {verdict(line)}"].append(
                f"{line['subject']} {line['method']}"
            )
    names = {line["name"] for line in lines}
    text = [f"{len(lines):,} trials of {len(names)} architectures", ""]
    titles = ["library", "as", "families", *(f"`{method}`" for method in methods)]
    text += [f"| {' | '.join([*titles, 'largest difference'])} |", "|" + "---|" * (len(titles) + 1)]
    for (library, subject), mine in sorted(groups.items()):
        families = len({line["family"] for line in mine})
        tried = [[line for line in mine if line["method"] == method] for method in methods]
        cells = [f"{sum(verdict(one) == 'exact' for one in of)} of {len(of)}" for of in tried]
        exact = [line["difference"] for line in mine if verdict(line) == "exact"]
        row = [library, subject, str(families), *cells, f"{max(exact, default=0):.1e}"]
        text.append(f"| {' | '.join(row)} |")
    text += ["", "| not exact | as and method |", "|---|---|"]
    text += [f"| {what} | {', '.join(how)} |" for what, how in sorted(failures.items())]
    return "\n".join(text)


def verdict(line: dict[str, Any]) -> str:
    if "error" in line:
        return str(line["error"]).replace("|", "/").replace("\n", " ")[:160]
    if not line["difference"] <= TOLERANCE:
        return "not exact"
    return "exact" if line["gradient"] else "exact, but no gradient along time"
