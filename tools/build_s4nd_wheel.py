"""Build a wheel that holds only the layer: package `s4nd`, which needs torch.

    python tools/build_s4nd_wheel.py --out dist
    pip install dist/s4nd-*.whl              # plain torch
    pip install 'dist/s4nd-*.whl[numba]'     # with the loops compiled for CPUs

Version, license and versions of the libraries are those of setup.cfg; the page is
docs/s4nd_alone.md.
"""

import argparse
import configparser
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "s4nd_alone.md"
SETUP = """[metadata]
name = s4nd
version = {version}
description = S4ND: state-space convolutions over any number of axes, as a PyTorch layer.
long_description = file: README.md
long_description_content_type = text/markdown
license = {license}
license_files = LICENSE

[options]
packages = s4nd, s4nd.compiled, s4nd.engines, s4nd.kernels
python_requires = {python}
install_requires = {torch}

[options.package_data]
s4nd = py.typed

[options.extras_require]
numba =
    {numba}
    {numpy}
"""
BUILD = "import sys; from setuptools import build_meta; print(build_meta.build_wheel(sys.argv[1]))"


def description() -> str:
    """The setup.cfg of the wheel, from that of the whole project."""
    project = configparser.ConfigParser()
    project.read(ROOT / "setup.cfg")
    needed = {
        line.partition(">")[0].strip(): line.strip()
        for line in project["options"]["install_requires"].splitlines()
    }
    return SETUP.format(
        version=project["metadata"]["version"],
        license=project["metadata"]["license"],
        python=project["options"]["python_requires"],
        **{name: needed[name] for name in ("torch", "numba", "numpy")},
    )


def build(out: Path) -> Path:
    """Write the wheel to `out`; its path."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "s4nd", Path(folder) / "s4nd", ignore=ignored)
        shutil.copyfile(ROOT / "LICENSE", Path(folder) / "LICENSE")
        shutil.copyfile(PAGE, Path(folder) / "README.md")
        (Path(folder) / "setup.cfg").write_text(description(), encoding="utf-8")
        command = [sys.executable, "-c", BUILD, str(out.resolve())]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"setuptools could not build the wheel:\n{done.stderr}")
    return out / done.stdout.splitlines()[-1]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("dist"), help="folder (dist)")
    print(build(parser.parse_args().out))


if __name__ == "__main__":
    main()
