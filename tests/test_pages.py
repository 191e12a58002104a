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


def _rows(text: str) -> list[list[str]]:
    """Cells of the first table of a text, without its head."""
    lines = [line for line in text[text.index("\n|") :].split("\n\n")[0].splitlines() if line]
    return [[cell.strip(" *") for cell in line.split("|")[1:-1]] for line in lines[2:]]


def test_accuracies_of_the_readme_are_those_of_the_results() -> None:
    readme = _rows((REPOSITORY / "README.md").read_text().split("## Results")[1])
    results = (REPOSITORY / "docs" / "results.md").read_text()
    rows = {"spoken digits": "digits10", "five hand gestures": "gesture5", "21 classes": "jhmdb21"}
    for start, data in rows.items():
        found = _rows("\n| " + results.split(f"| {data}, three seeds |")[1])
        means = [row[2].split()[0].strip("*") for row in found if "random order" not in row[0]]
        (cells,) = [row for row in readme if row[0].startswith(start)]
        assert re.findall(r"\d+\.\d", cells[2]) == means
    paper_size = _rows(results.split("## CIFAR-10")[1])[0]
    (cells,) = [row for row in readme if row[0].startswith("CIFAR-10")]
    assert re.findall(r"\d+\.\d", cells[2]) == [cell.split()[0] for cell in paper_size[1:4]]


def test_every_row_on_reliability_names_tests_that_exist() -> None:
    text = (REPOSITORY / "docs" / "reliability.md").read_text()
    rows = [line.split("|")[1:-1] for line in text.splitlines() if line.startswith("|")][2:]
    assert len(rows) > 20
    for row in rows:
        named = re.findall(r"`([\w/]+(?:\.py|/))`", row[-1])
        assert named or "make " in row[-1] or "the same" in row[-1], row
        assert [path for path in named if not (REPOSITORY / "tests" / path).exists()] == []
