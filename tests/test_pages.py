"""Links between the pages are valid, and the tests that they name exist."""

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


def test_numbers_of_the_readme_are_those_of_the_pages() -> None:
    results = (REPOSITORY / "README.md").read_text().split("## Results")[1].split("\n\n")[1]
    measured = [row.split("|")[-2] for row in results.splitlines()[2:]]
    pages = "".join(
        (REPOSITORY / "docs" / f"{name}.md").read_text() for name in ("results", "inflation")
    )
    numbers = [number for cell in measured for number in re.findall(r"\d+\.\d|\d,\d{3}", cell)]
    assert len(numbers) > 20
    assert [
        number for number in numbers if not re.search(rf"(?<![\d.]){number}(?!\d)", pages)
    ] == []


def test_every_row_on_reliability_names_tests_that_exist() -> None:
    text = (REPOSITORY / "docs" / "reliability.md").read_text()
    rows = [line.split("|")[1:-1] for line in text.splitlines() if line.startswith("|")][2:]
    assert len(rows) > 20
    for row in rows:
        named = re.findall(r"`([\w/]+(?:\.py|/))`", row[-1])
        assert named or "make " in row[-1] or "the same" in row[-1], row
        assert [path for path in named if not (REPOSITORY / "tests" / path).exists()] == []
