"""The pictures of the pages are small, used, and drawn by the tool."""

import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PICTURES = REPOSITORY / "docs" / "pictures"


def test_every_picture_is_shown_and_all_are_small() -> None:
    pages = [REPOSITORY / "README.md", *(REPOSITORY / "docs").rglob("*.md")]
    text = "\n".join(page.read_text() for page in pages)
    files = sorted(PICTURES.iterdir())
    assert [file.name for file in files if f"pictures/{file.name})" not in text] == []
    assert sum(file.stat().st_size for file in files) < 300_000


@pytest.mark.slow
def test_the_tool_draws_all_of_them(tmp_path: Path) -> None:
    command = [sys.executable, str(REPOSITORY / "tools" / "make_pictures.py"), str(tmp_path)]
    environment = {"PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1"}
    subprocess.run(command, check=True, env=environment, capture_output=True)
    drawn = {path.name for path in tmp_path.iterdir()}
    assert drawn == {path.name for path in PICTURES.iterdir()}
    assert all("<svg" in path.read_text()[:200] for path in tmp_path.glob("*.svg"))
