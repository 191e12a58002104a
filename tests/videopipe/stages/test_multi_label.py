"""Videos with several labels: lists, training, evaluation and prediction, each class on its own."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pretrained_2d.checkpoints.folder import read_card
from videopipe.cli import main
from videopipe.dataset.layouts.division import Division
from videopipe.dataset.layouts.recognise import find_dataset
from videopipe.dataset.manifest import read_manifest, write_manifest
from videopipe.errors import DataError
from videopipe.scoring.scores import ClipAverage, ClipOutput
from videopipe.video.writing import write_video

FORMS = {
    "list.csv": "path,labels,split\na.mp4,red; striped,train\nb.mp4,,train\nc.mp4,red,test\n",
    "list.tsv": "path\tlabels\tsplit\na.mp4\tstriped|red\ttrain\nb.mp4\t\ttrain\n"
    "c.mp4\tred\ttest\n",
    "list.jsonl": '{"path": "a.mp4", "labels": ["striped", "red"], "split": "train"}\n'
    '{"path": "b.mp4", "labels": [], "split": "train"}\n'
    '{"path": "c.mp4", "label": ["red"], "split": "test"}\n',
}


@pytest.mark.parametrize("name", FORMS)
def test_lists_with_several_labels(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(FORMS[name])
    manifest = find_dataset(tmp_path / name, division=Division(validation="none"))
    assert (manifest.labels, manifest.multi_label) == (("red", "striped"), True)
    assert [record.labels for record in manifest.records] == [(0, 1), (), (0,)]
    assert all(record.label is None and record.labelled for record in manifest.records)
    write_manifest(tmp_path / "clips", manifest)
    assert read_manifest(tmp_path / "clips").records == manifest.records


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_the_table_of_a_check_is_a_list_again(suffix: str, tmp_path: Path) -> None:
    (tmp_path / "list.csv").write_text(FORMS["list.csv"])
    table = tmp_path / f"table{suffix}"
    words = ["check", str(tmp_path / "list.csv"), "--validation", "none", "--table", str(table)]
    assert main(words) == 1, "the videos are missing"
    manifest = find_dataset(table, division=Division(validation="none"))
    assert manifest.labels == ("red", "striped")
    assert [record.labels for record in manifest.records] == [(0, 1), (), (0,)]


def test_a_parquet_list_and_numbers_with_names(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {"path": ["a.mp4", "b.mp4"], "labels": [[1, 0], None]}
    pq.write_table(pa.table(columns), tmp_path / "list.parquet")
    (tmp_path / "labels.txt").write_text("red\nstriped\n")
    manifest = find_dataset(tmp_path / "list.parquet", division=Division(validation="none"))
    assert manifest.labels == ("red", "striped")
    assert [record.labels for record in manifest.records] == [(0, 1), ()]


def test_every_class_of_multi_label_data_keeps_training_videos(tmp_path: Path) -> None:
    rows = [f"{n}.mp4,{'common;rare' if n < 2 else 'common'}" for n in range(20)]
    (tmp_path / "train.csv").write_text("path,labels\n" + "\n".join(rows) + "\n")
    for seed in range(20):
        division = Division(val_fraction=0.5, seed=seed)
        records = find_dataset(tmp_path / "train.csv", division=division).records
        left = {label for r in records if r.split == "train" for label in r.labels or ()}
        assert left == {0, 1}
        assert sum(record.split == "val" for record in records) >= 5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"path": "a.mp4", "label": "x", "labels": ["y"]}', "both 'labels' and one label ('x')"),
        ('{"path": "a.mp4", "labels": {"x": 1}}', "expected a list such as"),
        ('{"path": "a.mp4", "labels": ["x"]}\n{"path": "b.mp4", "label": "x"}', "in every list"),
    ],
)
def test_lists_that_make_no_sense(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "list.jsonl").write_text(text)
    with pytest.raises(DataError) as caught:
        find_dataset(tmp_path / "list.jsonl")
    assert message in str(caught.value)


def test_probabilities_are_sigmoids() -> None:
    for kind in ("logits", "probabilities"):
        average = ClipAverage(kind, multi_label=True)
        logits = np.array([0.0, 3.0, -800.0], dtype=np.float32)
        average.add(ClipOutput(logits, None))
        found = average.means()["probabilities"]
        np.testing.assert_allclose(found, [0.5, 1 / (1 + np.exp(-3.0)), 0.0], atol=1e-7)


def test_files_of_single_label_data_are_as_before(tiny_model: Path, tmp_path: Path) -> None:
    assert "multi_label" not in json.loads((tiny_model / "config.json").read_text())
    (tmp_path / "list.csv").write_text("path,label\na.mp4,x\nb.mp4,y\n")
    manifest = find_dataset(tmp_path / "list.csv", division=Division(validation="none"))
    assert not manifest.multi_label
    write_manifest(tmp_path, manifest)
    rows = [json.loads(line) for line in (tmp_path / "manifest.jsonl").read_text().splitlines()]
    missing = {"status": "missing", "reason": "it is in a list, but there is no such file"}
    assert rows == [
        {"path": "a.mp4", "label": 0, "split": "train", **missing},
        {"path": "b.mp4", "label": 1, "split": "train", **missing},
    ]


def write_data(folder: Path) -> Path:
    """Videos of noise that are red, striped, both or neither; the list names their splits."""
    random = np.random.default_rng(0)
    lines = ["path,labels,split"]
    for number in range(48):
        red, striped = number % 2 == 1, number % 4 >= 2
        picture = random.integers(0, 90, (32, 32, 3), dtype=np.uint8)
        picture[..., 0] += 150 * red
        picture[::4] += 70 * striped
        picture[1::4] += 70 * striped
        frames = (np.roll(picture, frame, axis=1) for frame in range(8))
        write_video(folder / f"{number}.mp4", frames, frame_rate=8.0)
        split = "train" if number < 32 else "val" if number < 40 else "test"
        labels = ";".join(["red"] * red + ["striped"] * striped)
        lines.append(f"{number}.mp4,{labels},{split}")
    (folder / "list.csv").write_text("\n".join(lines) + "\n")
    return folder / "list.csv"


PIPELINE = """
name: several
stages:
  start: {{use: adopt, config: {{checkpoint: {model}}}}}
  clips: {{use: decode, config: {{data: {data}, workers: 1, depth: header}}}}
  model:
    use: finetune
    inputs: {{model: start, clips: clips}}
    config:
      recipe: {{epochs: 12, batch_size: 8, accumulation: 1, lr: 5e-3, workers: 0, device: cpu}}
      augmentation: {{rand_augment_layers: 0, scale: [1.0, 1.0]}}
      drop_path: 0.0
      head_dropout: 0.0
      decoding_workers: 1
  scores:
    use: evaluate
    inputs: {{model: model, clips: clips}}
    config: {{execution: {{workers: 1, device: cpu, threads: 1}}}}
"""


@pytest.mark.slow
def test_a_network_learns_two_independent_labels(
    make_tiny_model: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    start = make_tiny_model(tmp_path / "start")
    Path("videos").mkdir()
    data = write_data(Path("videos"))
    Path("p.yaml").write_text(PIPELINE.format(model=start, data=data))
    assert main(["run", "p.yaml"]) == 0
    assert "scores: mean average precision" in capsys.readouterr().err
    (model,), (scores,) = Path("runs").glob("model-*"), Path("runs").glob("scores-*")
    card = read_card(model)
    assert (card.multi_label, card.labels) == (True, ("red", "striped"))
    metrics = json.loads((scores / "metrics.json").read_text())
    assert metrics["mean_average_precision"]["value"] >= 0.95
    assert {one["label"]: one["positives"] for one in metrics["per_class"]} == {
        "red": 4,
        "striped": 4,
    }
    page = Path("runs/several/report/report.html").read_text()
    assert "mean average precision" in page

    assert main(["evaluate", str(model), str(data), "--out", "e", "-j", "1"]) == 0
    again = json.loads(Path("e/metrics.json").read_text())
    assert again["mean_average_precision"] == metrics["mean_average_precision"]
    assert "Mean average precision" in Path("e/report/report.html").read_text()

    # Probabilities of a softmax add up to 1, so that the lower one of two is at most one half and
    # the higher one at least that.
    words = ["predict", str(model), "videos/47.mp4", "videos/44.mp4", "--out", "t.csv", "-j", "1"]
    assert main(words) == 0
    with Path("t.csv").open(newline="") as file:
        rows = {Path(row["path"]).name: row for row in csv.DictReader(file)}
    both, neither = rows["47.mp4"], rows["44.mp4"]
    assert float(both["probability_2"]) > float(neither["probability_1"])

    capsys.readouterr()
    assert main(["run", "p.yaml", "--set", "scores.frame_rates=[4.0]"]) == 1
    assert "leave frame_rates out" in capsys.readouterr().err
    assert main(["evaluate", str(start), str(data), "--out", "x"]) == 1
    assert "the data has several labels per video, but the model was" in capsys.readouterr().err


def test_stages_that_need_one_label_say_so(tmp_path: Path) -> None:
    from videopipe.evaluation.comparison.table import read_evaluations
    from videopipe.evaluation.multi_label import measure_multi_label
    from videopipe.evaluation.score_table import ScoreTable, write_evaluation
    from videopipe.pipeline.stage import Result
    from videopipe.probing.head_training import check_single_label

    (tmp_path / "list.csv").write_text(FORMS["list.csv"])
    manifest = find_dataset(tmp_path / "list.csv", division=Division(validation="none"))
    with pytest.raises(DataError, match="has several labels per video; heads are trained on data"):
        check_single_label(manifest)
    targets, scores = np.array([[True, False]]), np.array([[0.5, 0.5]], dtype=np.float32)
    table = ScoreTable(manifest.labels, ("a",), targets, np.ones(1, dtype=int), scores, ("",))
    write_evaluation(tmp_path, table, measure_multi_label(table))
    with pytest.raises(DataError, match="stage 'scores' evaluated multi-label data"):
        read_evaluations([Result(tmp_path, "scores")], None)
