"""Options that were renamed still work, with a warning."""

import re
from pathlib import Path

import pytest

from videopipe import cli

OLD_NAMES = [
    (["predict", "m", "v", "--out", "o.csv", "--timeout", "3"], "timeout_seconds", 3.0),
    (["predict", "m", "v", "--out", "o.csv", "--stride", "0.5"], "stride_seconds", 0.5),
    (["adopt", "w.pth", "--out", "o", "--frames", "8"], "num_frames", 8),
    (["check", "videos", "--split", "2"], "official_split", 2),
]


@pytest.mark.parametrize(("arguments", "field", "value"), OLD_NAMES)
def test_old_names_of_options_warn(
    arguments: list[str], field: str, value: float, capsys: pytest.CaptureFixture[str]
) -> None:
    parsed = cli.build_parser().parse_args(arguments)
    new = f"--{field.replace('_', '-')}"
    assert getattr(parsed, field) == value
    assert capsys.readouterr().err == (
        f"warning: {arguments[-2]} is now called {new}; use the new name\n"
    )
    page = Path(__file__).resolve().parents[3] / "docs" / "commands.md"
    section = page.read_text().split(f"\n## {arguments[0]}\n")[1].split("\n## ")[0]
    shown = set(re.findall(r"--[a-z-]+", section))
    assert new in shown
    assert arguments[-2] not in shown
