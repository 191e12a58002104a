"""The documentation site: every page is in its navigation, and it builds without a broken link."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

REPOSITORY = Path(__file__).resolve().parents[2]


def pages_of(entries: list[Any]) -> list[str]:
    pages = []
    for entry in entries:
        (target,) = entry.values()
        pages += pages_of(target) if isinstance(target, list) else [target]
    return pages


def test_the_navigation_lists_every_page() -> None:
    listed = pages_of(yaml.safe_load((REPOSITORY / "mkdocs.yml").read_text())["nav"])
    docs = REPOSITORY / "docs"
    pages = {page.relative_to(docs).as_posix() for page in docs.rglob("*.md")}
    assert len(listed) == len(set(listed))
    assert pages <= set(listed)


@pytest.mark.slow
def test_the_site_builds_without_a_broken_link() -> None:
    pytest.importorskip("mkdocstrings", reason='needs pip install "videopipe[docs]"')
    command = [sys.executable, REPOSITORY / "tools" / "make_site.py"]
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    site = REPOSITORY / "build" / "site"
    assert "S4ND" in (site / "api" / "s4nd.html").read_text()
    assert (site / "search" / "search_index.json").stat().st_size > 100_000
