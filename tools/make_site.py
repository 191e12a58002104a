"""Build the documentation site into build/site: pages of docs/, the pages beside it, and the API.

python tools/make_site.py           build/site/index.html; a broken link is an error
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "build" / "pages"
TOP_PAGES = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "ARCHITECTURE.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "CHANGELOG.md": "CHANGELOG.md",
}
# What each API page documents, by the module that defines it.
API = {
    "s4nd": ["s4nd.S4ND", "s4nd.AxisConfig", "s4nd.inflate.inflate", "s4nd.from_reference"],
    "pretrained_2d": [
        "pretrained_2d.networks.backbones.build",
        "pretrained_2d.checkpoints.folder.load_checkpoint",
        "pretrained_2d.checkpoints.folder.save_checkpoint",
        "pretrained_2d.checkpoints.card.ModelCard",
        "pretrained_2d.checkpoints.card.Preprocessing",
    ],
    "videopipe": [
        "videopipe.prediction.predictor.Predictor",
        "videopipe.prediction.predictor.predict",
        "videopipe.inflation.folded.inflate",
        "videopipe.inflation.folded.FoldedNetwork",
        "videopipe.inflation.operation.inflate_checkpoint",
        "videopipe.inflation.options.InflationOptions",
        "videopipe.inflation.proof.boring_video_test",
    ],
}


def gather() -> None:
    """Copy all pages into one folder and adjust their links."""
    shutil.rmtree(PAGES, ignore_errors=True)
    shutil.copytree(ROOT / "docs", PAGES)
    for page in PAGES.rglob("*.md"):
        page.write_text(
            page.read_text().replace("](../../", "](../").replace("](../docs/", "](../")
        )
    for page in PAGES.glob("*.md"):
        page.write_text(re.sub(r"\]\(\.\./(\w+\.md)", r"](\1", page.read_text()))
    for source, target in TOP_PAGES.items():
        text = (ROOT / source).read_text().replace("](docs/", "](")
        (PAGES / target).write_text(text.replace("](README.md", "](index.md"))
    (PAGES / "api").mkdir()
    for package, names in API.items():
        directives = "\n".join(f"::: {name}\n" for name in names)
        (PAGES / "api" / f"{package}.md").write_text(f"# {package}\n\n{directives}")


def main() -> int:
    gather()
    build = [sys.executable, "-m", "mkdocs", "build", "--strict"]
    done = subprocess.run(build, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})
    if done.returncode == 0:
        print(ROOT / "build" / "site" / "index.html")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
