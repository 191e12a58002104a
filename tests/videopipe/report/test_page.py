import json
import re
import shutil
import subprocess
from html import unescape

import pytest

from videopipe.report import plots
from videopipe.report.page import Block, Section, Strip, Table, render, write_page

EVIL = '<script>alert("x")</script>&$5$'

# Runs after the page's own script: sorts, filters and measures, then writes what it found.
PROBE = """
<script>
const found = {errors: window.pageErrors, width: innerWidth};
found.overflow = document.documentElement.scrollWidth - document.documentElement.clientWidth;
const table = document.querySelector("table");
const shown = () => [...table.tBodies[0].rows].filter((row) => !row.hidden);
const column = (i) => shown().map((row) => row.cells[i].textContent);
table.querySelectorAll("th button")[1].click();
found.ascending = column(1);
table.querySelectorAll("th button")[1].click();
found.descending = column(1);
const input = document.querySelector("input");
input.value = "row 3";
input.dispatchEvent(new Event("input"));
found.filtered = column(0);
document.body.innerHTML = "";
const result = document.createElement("pre");
result.id = "found";
result.textContent = JSON.stringify(found);
document.body.append(result);
</script>
"""
CATCH = """
<script>
window.pageErrors = [];
addEventListener("error", (event) => pageErrors.push(event.message));
</script>
"""


def sections() -> list[Section]:
    rows = [
        (f"row {index}", value) for index, value in enumerate([10, 9, 100, 1, 2.5, 7, 8, 3, 4, 5])
    ]
    points = [(step, 1 / step) for step in range(1, 9)]
    return [
        Section(
            "first",
            "A part",
            text=[EVIL],
            tables=[Table(EVIL, ("name", "number"), rows)],
            pictures=[plots.curves("curve", EVIL, {EVIL: points}, x="step", y="loss")],
            strips=[Strip("data:image/gif;base64,R0lGODlhAQABAAAAACw=", EVIL, EVIL)],
            blocks=[Block(EVIL, EVIL)],
            missing=[EVIL],
        ),
        Section("empty", "Nothing to show"),
    ]


def test_text_that_looks_like_html_stays_text() -> None:
    page = render(EVIL, EVIL, sections())
    assert "<script>alert" not in page
    assert page.count("&lt;script&gt;alert") >= 10


def test_a_section_without_content_is_left_out() -> None:
    assert "Nothing to show" not in render("title", "", sections())


def test_pictures_take_the_colour_of_the_page_and_files_do_not(tmp_path) -> None:
    picture = sections()[0].pictures[0]
    assert "currentColor" in picture.svg
    assert "currentColor" not in picture.save(tmp_path).read_text()


def test_every_picture_has_alternative_text() -> None:
    page = render("title", "", sections())
    labels = re.findall(r'role="img" aria-label="([^"]+)"', page)
    assert len(labels) == page.count("<svg") == 1


@pytest.mark.slow
@pytest.mark.parametrize("width", [500, 1400])
def test_in_a_browser_tables_sort_and_filter_and_nothing_overflows(tmp_path, width) -> None:
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        pytest.skip("no Chromium on this machine")
    page = write_page(tmp_path, "title", "", sections())
    text = (
        page.read_text().replace("<head>", "<head>" + CATCH).replace("</body>", PROBE + "</body>")
    )
    page.write_text(text)
    found = browse(browser, page, width)
    assert found["errors"] == []
    assert found["overflow"] == 0
    assert found["ascending"] == ["1", "2.5", "3", "4", "5", "7", "8", "9", "10", "100"]
    assert found["descending"] == found["ascending"][::-1]
    assert found["filtered"] == ["row 3"]


def browse(browser, page, width) -> dict:
    command = [
        browser, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
        f"--user-data-dir={page.parent / 'profile'}", f"--window-size={width},900",
        "--dump-dom", page.as_uri(),
    ]  # fmt: skip
    dom = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    match = re.search(r'<pre id="found">(.*?)</pre>', dom, re.DOTALL)
    assert match, dom[-2000:]
    return json.loads(unescape(match[1]))
