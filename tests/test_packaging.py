"""The wheel, the source archive, and imports without warnings."""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
PACKAGES = ("pipelines", "pretrained_2d", "s4nd", "videopipe")
BESIDE = ("setup.cfg", "pyproject.toml", "README.md", "LICENSE")
OTHERS = ("tests", "tools", "docs")
BUILD = """
import sys
from setuptools import build_meta
print(getattr(build_meta, sys.argv[1])(sys.argv[2]))
"""


def sources(folder: Path, suffixes: tuple[str, ...]) -> set[str]:
    return {
        path.relative_to(folder).as_posix()
        for package in PACKAGES
        for path in (folder / package).rglob("*")
        if path.suffix in suffixes or path.name == "py.typed"
    }


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A wheel and a source archive, built from a copy: building leaves files behind."""
    copy, out = tmp_path_factory.mktemp("copy"), tmp_path_factory.mktemp("dist")
    for name in (*PACKAGES, *OTHERS):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(REPOSITORY / name, copy / name, ignore=ignored)
    for name in BESIDE:
        shutil.copyfile(REPOSITORY / name, copy / name)
    made = []
    for what in ("build_wheel", "build_sdist"):
        command = [sys.executable, "-c", BUILD, what, str(out)]
        finished = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False)
        assert finished.returncode == 0, finished.stderr
        made.append(out / finished.stdout.splitlines()[-1])
    return made[0], made[1]


def test_the_wheel_has_the_packages_and_pipelines_and_nothing_else(built) -> None:
    names = set(zipfile.ZipFile(built[0]).namelist())
    inside = {name for name in names if ".dist-info/" not in name}
    assert inside == sources(REPOSITORY, (".py", ".yaml", ".html", ".css", ".js"))
    assert {name for name in names if name.endswith(".yaml")} == {
        f"pipelines/{path.name}" for path in (REPOSITORY / "pipelines").glob("*.yaml")
    }
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_source_archive_builds_the_same_wheel(built, tmp_path: Path) -> None:
    with tarfile.open(built[1]) as archive:
        archive.extractall(tmp_path, filter="data")
    (root,) = tmp_path.iterdir()
    assert all((root / name).is_file() for name in BESIDE)
    suffixes = (".py", ".yaml", ".html", ".css", ".js")
    assert sources(root, suffixes) == sources(REPOSITORY, suffixes)


def test_importing_warns_of_nothing() -> None:
    command = [sys.executable, "-W", "error", "-c", "import s4nd, pretrained_2d, videopipe"]
    finished = subprocess.run(
        command,
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, "", "")
