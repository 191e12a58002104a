from pathlib import Path

import pytest

from pretrained_2d import build
from pretrained_2d.checkpoints.card import ModelCard
from pretrained_2d.checkpoints.folder import save_checkpoint
from videopipe.cli import main
from videopipe.inflation import InflationOptions, inflate_checkpoint
from videopipe.pipeline.jobs import load_pipeline
from videopipe.pipeline.template import DatasetSummary, write_pipeline
from videopipe.stages import STAGES


def write_dataset(folder: Path, tiny_video, classes=("run", "walk & talk", "yes"), each=2) -> Path:
    for name in classes:
        for index in range(each):
            tiny_video(folder / name / f"{index}.mp4", num_frames=12, frame_rate=10)
    return folder


def test_the_pipeline_written_is_one_that_loads(tmp_path, tiny_video, capsys) -> None:
    data = write_dataset(tmp_path / "my videos #1", tiny_video)
    weights = tmp_path / "weights.pth"
    weights.write_bytes(b"")
    out = tmp_path / "mine.yaml"
    code = main(["init", str(data), "--checkpoint", str(weights), "--out", str(out)])
    assert code == 0
    assert capsys.readouterr().out.strip() == str(out)
    jobs = {job.stage: job for job in load_pipeline(out, STAGES).jobs}
    assert list(jobs) == ["backbone", "inflated", "clips", "model", "scores"]
    assert jobs["clips"].config.data == data
    assert jobs["inflated"].config.num_classes == 3
    assert jobs["inflated"].config.clip_seconds == pytest.approx(1.2)
    assert jobs["clips"].config.num_folds == 5


@pytest.mark.parametrize(
    ("architecture", "videos", "expected"),
    [
        ("timm/test_resnet", 700, (16, 19, 1e-3)),  # batch norm
        ("timm/test_vit", 700, (16, 19, 2e-4)),
        ("timm/test_resnet", 60, (8, 100, 1e-3)),
        ("timm/test_resnet", 6, (2, 100, 1e-3)),
        ("timm/test_resnet", 4000, (16, 10, 1e-3)),
    ],
)
def test_the_recipe_follows_the_number_of_videos_and_the_norms_of_the_network(
    tmp_path, architecture, videos, expected
) -> None:
    splits = {"train": round(videos / 0.9), "test": 10}
    found = DatasetSummary(tmp_path, "class folders", 2, splits, 1.0, 1.0)
    text = write_pipeline(found, checkpoint="$W", architecture=architecture, image_size=32)
    (tmp_path / "p.yaml").write_text(text.replace("$W", str(tmp_path)))
    (job,) = (j for j in load_pipeline(tmp_path / "p.yaml", STAGES).jobs if j.stage == "model")
    recipe = job.config.recipe
    assert (recipe.batch_size, recipe.epochs, recipe.lr) == expected
    assert job.config.augmentation.flip == 0, "classes may differ by direction"
    assert not job.config.freeze_batch_norm


def test_an_existing_file_is_kept(tmp_path, tiny_video, capsys) -> None:
    data = write_dataset(tmp_path / "videos", tiny_video)
    out = tmp_path / "mine.yaml"
    out.write_text("precious")
    assert main(["init", str(data), "--out", str(out)]) == 1
    assert out.read_text() == "precious"
    assert f"{out} exists; give another --out, or --overwrite" in capsys.readouterr().err


def test_videos_without_classes_are_refused(tmp_path, tiny_video, capsys) -> None:
    tiny_video(tmp_path / "videos" / "one.mp4", num_frames=4)
    out = tmp_path / "mine.yaml"
    assert main(["init", str(tmp_path / "videos"), "--out", str(out)]) == 1
    assert "1 videos, but no classes to learn" in capsys.readouterr().err
    assert not out.exists()


def test_a_checkpoint_folder_names_its_architecture(tmp_path, tiny_video, capsys) -> None:
    data = write_dataset(tmp_path / "videos", tiny_video)
    network = build("timm/test_resnet", num_classes=4)
    card = ModelCard(architecture="timm/test_resnet", options={"num_classes": 4})
    save_checkpoint(tmp_path / "flat", network, card)
    inflate_checkpoint(tmp_path / "flat", tmp_path / "video", InflationOptions(num_frames=4))
    stages = {"flat": ["backbone", "inflated"], "video": ["backbone"]}
    for name, begin in stages.items():
        out = tmp_path / f"{name}.yaml"
        assert (
            main(["init", str(data), "--checkpoint", str(tmp_path / name), "--out", str(out)]) == 0
        )
        jobs = load_pipeline(out, STAGES).jobs
        assert [job.stage for job in jobs] == [*begin, "clips", "model", "scores"]
        assert jobs[-2].inputs["model"][0].stage == begin[-1]
    assert "timm/test_resnet on 4 frames in 2.0 seconds" in (tmp_path / "video.yaml").read_text()
    capsys.readouterr()
    architecture = ["--architecture", "timm/test_resnet", "--out", str(tmp_path / "x.yaml")]
    assert main(["init", str(data), "--checkpoint", str(tmp_path / "flat"), *architecture]) == 1
    assert "leave --architecture out" in capsys.readouterr().err
