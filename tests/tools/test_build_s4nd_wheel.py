"""The wheel of the layer alone, imported where nothing but torch is installed."""

import re
import subprocess
import sys
import zipfile
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = REPOSITORY / "docs" / "s4nd_alone.md"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, REPOSITORY / "tools" / "build_s4nd_wheel.py", "--out", out]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


def test_it_holds_the_layer_and_needs_torch(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    inside = {name for name in archive.namelist() if ".dist-info/" not in name}
    expected = [*(REPOSITORY / "s4nd").rglob("*.py"), REPOSITORY / "s4nd" / "py.typed"]
    assert inside == {path.relative_to(REPOSITORY).as_posix() for path in expected}
    (name,) = (name for name in archive.namelist() if name.endswith("METADATA"))
    metadata = archive.read(name).decode()
    required = re.findall(r"^Requires-Dist: (.*)$", metadata, re.MULTILINE)
    assert [line for line in required if "extra" not in line] == ["torch>=2.14"]
    assert {re.split("[<>]", line)[0] for line in required} == {"torch", "numba", "numpy"}
    assert "# The layer alone" in metadata


def torch_and_what_it_needs() -> set[Path]:
    """Folders and modules of torch and of its dependencies in this environment."""
    found: set[Path] = set()
    seen, todo = set(), ["torch"]
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        try:
            library = distribution(name)
        except PackageNotFoundError:  # for another system
            continue
        tops = {Path(file).parts[0] for file in library.files or ()} - {"..", "__pycache__"}
        found |= {Path(str(library.locate_file(top))) for top in tops}
        needs = [line for line in library.requires or () if "extra ==" not in line]
        todo += [re.split(r"[^\w.-]", line)[0] for line in needs]
    return found


@pytest.mark.slow
def test_it_runs_its_tour_in_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    """Torch is linked, not downloaded; numpy, numba and the application are not there."""
    environment = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    (packages,) = environment.glob("lib/python*/site-packages")
    for path in torch_and_what_it_needs():
        if path.name not in ("numpy", "numba", "einops"):
            (packages / path.name).symlink_to(path)
    zipfile.ZipFile(wheel).extractall(packages)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) >= 5
    code = "\n".join(blocks) + "\nimport s4nd, importlib.util as u\nprint(s4nd.__file__)\n"
    code += "print([n for n in ('numba', 'einops', 'videopipe', 'timm') if u.find_spec(n)])\n"
    command = [environment / "bin" / "python", "-W", "ignore", "-I", "-c", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    *shapes, place, others = done.stdout.splitlines()
    assert shapes == re.findall(r"# (torch\.Size\(.*\))", PAGE.read_text(encoding="utf-8"))
    assert Path(place).is_relative_to(environment)
    assert others == "[]"
