"""A checkpoint as a folder for the Hugging Face hub, and a model loaded from a hub."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from pretrained_2d.errors import CheckpointError
from videopipe import Predictor
from videopipe.cli import main
from videopipe.errors import DataError
from videopipe.models import find_model

QUICK = {"device": "cpu", "workers": 1, "threads": 1}
LABELS = ["left", "right", "up", "down"]
METRICS = {
    "videos": 160, "recordings": 40, "failed": 1, "split": "test", "labels": LABELS,
    "top1": {"value": 0.9125, "low": 0.85, "high": 0.95},
    "top5": {"value": 1.0, "low": 0.97, "high": 1.0},
}  # fmt: skip


@pytest.fixture
def evaluation(tmp_path: Path) -> Path:
    (tmp_path / "scores").mkdir()
    (tmp_path / "scores" / "metrics.json").write_text(json.dumps(METRICS))
    return tmp_path / "scores"


def export(model: Path, out: Path, *arguments: object) -> int:
    return main(["export", str(model), "--format", "hub", "--out", str(out), *map(str, arguments)])


def test_the_card_says_what_the_hub_and_a_user_need(
    tiny_model: Path, evaluation: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "motions"
    assert export(tiny_model, out, "--evaluation", evaluation) == 0
    assert "publish: hf upload OWNER/motions" in capsys.readouterr().out
    assert {path.name for path in out.iterdir()} == {
        "README.md", "config.json", "model.safetensors",
    }  # fmt: skip
    header, text = (out / "README.md").read_text().split("---\n")[1:]
    entries = yaml.safe_load(header)
    assert entries["pipeline_tag"] == "video-classification"
    (result,) = entries["model-index"][0]["results"]
    assert result["metrics"][0] == {
        "type": "accuracy", "name": "top-1 accuracy", "value": 0.9125,
    }  # fmt: skip
    assert "| top-1 | 91.2% | 85.0% to 95.0% |" in text
    assert "160 videos of split `test`, 40 recordings, 1 unreadable" in text
    assert "A clip is 4 frames of 0.5 seconds. It distinguishes 4 classes." in text
    assert 'Predictor.from_pretrained("motions")' in text
    assert "`left`, `right`, `up`, `down`" in text
    from huggingface_hub import ModelCard

    ModelCard.load(out / "README.md")  # the hub's own reader


def test_a_network_for_images_has_the_tag_of_images(
    make_tiny_model: Callable[..., Path], tmp_path: Path
) -> None:
    assert export(make_tiny_model(tmp_path / "2d", ndim=2), tmp_path / "out") == 0
    text = (tmp_path / "out" / "README.md").read_text()
    assert "pipeline_tag: image-classification" in text
    assert "## Accuracy" not in text


def test_what_cannot_be_used_is_named(
    tiny_model: Path, evaluation: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert export(tiny_model, out, "--evaluation", tmp_path / "gone") == 1
    assert "gone is not the metrics.json of an evaluate stage" in capsys.readouterr().err
    other = METRICS | {"labels": ["cat", "dog", "up", "down"]}
    (evaluation / "metrics.json").write_text(json.dumps(other))
    assert export(tiny_model, out, "--evaluation", evaluation) == 1
    assert "has other labels than the checkpoint" in capsys.readouterr().err
    assert not out.exists()
    out.mkdir()
    assert export(tiny_model, out) == 1
    assert f"--out {out} exists; name a new folder" in capsys.readouterr().err


def test_one_video_is_classified_as_transformers_does(tiny_model: Path, video_folder: Path) -> None:
    video = video_folder / "part0" / "video00.mp4"
    with Predictor.from_pretrained(tiny_model, top_k=2, **QUICK) as predictor:
        classes = predictor.classify(video)
        (row,) = predictor.predict(video)
        with pytest.raises(DataError, match=r"empty\.mp4: "):
            predictor.classify(video_folder / "part0" / "empty.mp4")
        with pytest.raises(DataError, match="5 results, classify takes one video"):
            predictor.classify(video_folder / "part0")
    assert [set(entry) for entry in classes] == [{"score", "label"}] * 2
    assert classes[0] == {"score": row["probability_1"], "label": row["label_1"]}
    assert classes[0]["score"] >= classes[1]["score"]


def test_a_name_that_is_neither_a_folder_nor_of_the_hub(tiny_model: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="does not exist; name a checkpoint folder, or owner"):
        find_model(tmp_path / "gone")
    with pytest.raises(CheckpointError, match="is a folder; revision v2 is for the hub only"):
        Predictor.from_pretrained(tiny_model, revision="v2")


COMMIT = "0123456789abcdef0123456789abcdef01234567"


@contextmanager
def hub_of(folder: Path) -> Iterator[str]:
    """A server with the part of the hub's protocol that a download needs."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

        def do_HEAD(self) -> None:
            self.answer()

        def do_GET(self) -> None:
            self.wfile.write(self.answer())

        def answer(self) -> bytes:
            path = self.path.split("?")[0]
            if path.startswith("/api/models/me/motions"):
                files = sorted(folder.iterdir())
                content: object = [
                    {"type": "file", "path": f.name, "size": f.stat().st_size, "oid": f.name}
                    for f in files
                ]
                if "/tree/" not in path:
                    names = [{"rfilename": f.name} for f in files]
                    content = {"id": "me/motions", "sha": COMMIT, "siblings": names}
                return self.reply(json.dumps(content).encode())
            if path.startswith("/me/motions/resolve/"):
                return self.reply((folder / Path(path).name).read_bytes(), Path(path).name)
            self.send_response(404)
            self.send_header("X-Error-Code", "RepoNotFound")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return b""

        def reply(self, content: bytes, tag: str = "api") -> bytes:
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("ETag", f'"{tag}"')
            self.send_header("X-Repo-Commit", COMMIT)
            self.end_headers()
            return content

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


LOAD = """
import sys
from pretrained_2d.errors import CheckpointError
from videopipe.models import find_model, load_model
found = find_model("me/motions")
print(sorted(path.name for path in found.iterdir()), load_model(found)[1].labels)
try:
    find_model("me/gone")
except CheckpointError as error:
    print(error)
"""


@pytest.mark.slow
def test_a_model_comes_from_a_hub(tiny_model: Path, tmp_path: Path) -> None:
    assert export(tiny_model, tmp_path / "motions") == 0
    (tmp_path / "motions" / "code.py").write_text("raise SystemExit('never downloaded')")
    with hub_of(tmp_path / "motions") as address:
        repository = Path(__file__).parents[3]
        environment = os.environ | {
            "HF_ENDPOINT": address, "HF_HOME": str(tmp_path / "cache"),
            "PYTHONPATH": str(repository), "HF_HUB_DISABLE_PROGRESS_BARS": "1",
            "HF_HUB_DISABLE_XET": "1", "HF_HUB_OFFLINE": "0",
        }  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-c", LOAD], env=environment, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == "['config.json', 'model.safetensors'] ('left', 'right', 'up', 'down')"
    assert "me/gone is not a folder and could not be read from the Hugging Face hub" in second
