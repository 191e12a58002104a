"""Links between the pages are valid."""

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
PAGES = sorted([*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md")])
LINK = re.compile(r"\]\(([^)#\s]+)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(REPOSITORY).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    targets = [link for link in LINK.findall(page.read_text()) if "://" not in link]
    assert [link for link in targets if not (page.parent / link).exists()] == []


def test_the_readme_leads_to_every_page() -> None:
    linked = set(LINK.findall((REPOSITORY / "README.md").read_text()))
    pages = {page.relative_to(REPOSITORY).as_posix() for page in PAGES} - {"README.md"}
    assert pages - linked == set()
