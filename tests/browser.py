"""Open a report page in headless Chromium: sort, filter, measure, and record errors."""

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

import pytest

# Runs after the page's own script: sorts, filters and measures, then writes what it found.
PROBE = """
<script>
const found = {errors: window.pageErrors, width: innerWidth};
found.overflow = document.documentElement.scrollWidth - document.documentElement.clientWidth;
const table = document.querySelector(".table input").closest(".table").querySelector("table");
const shown = () => [...table.tBodies[0].rows].filter((row) => !row.hidden);
const column = (i) => shown().map((row) => row.cells[i].textContent);
table.querySelectorAll("th button")[1].click();
found.ascending = column(1);
table.querySelectorAll("th button")[1].click();
found.descending = column(1);
const input = table.closest(".table").querySelector("input");
input.value = table.tBodies[0].rows[0].cells[0].textContent;
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


@pytest.fixture
def browse(tmp_path: Path) -> Callable[[Path, int], dict[str, Any]]:
    """`browse(page, width)` -> what the probe found; skips where there is no browser."""

    def open_page(page: Path, width: int) -> dict[str, Any]:
        browser = shutil.which("chromium") or shutil.which("chromium-browser")
        if browser is None:
            pytest.skip("there is no Chromium; to run this test: apt install chromium")
        text = page.read_text().replace("<head>", "<head>" + CATCH, 1)
        probed = tmp_path / f"probed_{width}.html"
        probed.write_text(text.replace("</body>", PROBE + "</body>"))
        command = [
            browser, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--disable-sync",
            f"--user-data-dir={tmp_path / 'profile'}", f"--window-size={width},900",
            "--dump-dom", probed.as_uri(),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
        match = re.search(r'<pre id="found">(.*?)</pre>', done.stdout, re.DOTALL)
        assert match, done.stdout[-2000:]
        found: dict[str, Any] = json.loads(unescape(match[1]))
        return found

    return open_page


WATCH = """
<script>
addEventListener("load", () => {
  const height = document.documentElement.scrollHeight;  // asks for the layout
  const seconds = performance.now() / 1000;
  document.body.innerHTML = `<pre id="found">${seconds}</pre>`;
});
</script>
"""


def opening_seconds(page: Path, folder: Path) -> float | None:
    """From the beginning of loading until all is read and laid out; None without a browser."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        return None
    watched = folder / "watched.html"
    watched.write_text(page.read_text().replace("</body>", WATCH + "</body>"))
    command = [
        browser, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
        f"--user-data-dir={folder / 'watching'}", "--window-size=1400,900",
        "--dump-dom", watched.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    match = re.search(r'<pre id="found">([\d.]+)</pre>', done.stdout)
    return float(match[1]) if match else None
