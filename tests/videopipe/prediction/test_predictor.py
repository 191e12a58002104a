import threading

import pytest

import videopipe
from pretrained_2d.checkpoints.card import ModelCard, Preprocessing
from pretrained_2d.checkpoints.folder import save_checkpoint
from pretrained_2d.networks.backbones import build
from videopipe.dataset.lists.video_range import VideoRange
from videopipe.errors import DataError, VideopipeError
from videopipe.inflation.operation import inflate_checkpoint
from videopipe.inflation.options import InflationOptions
from videopipe.prediction.operation import predict_table
from videopipe.prediction.request import TableRequest

QUICK = {"device": "cpu", "workers": 1, "threads": 1}


def test_rows_come_without_files(tiny_model, video_folder, tmp_path):
    paths = [video_folder / "part0", tmp_path / "gone.mp4"]
    rows = list(videopipe.predict(tiny_model, paths, top_k=1, **QUICK))
    assert len(rows) == 6
    assert {row["status"] for row in rows} == {"ok", "error", "missing"}
    assert all(row["label_1"] in ("left", "right", "up", "down", None) for row in rows)
    assert "label_2" not in rows[0]


def test_a_predictor_keeps_its_model_and_its_workers(tiny_model, video_folder):
    video = str(video_folder / "part0" / "video00.mp4")
    with videopipe.Predictor(tiny_model, scores=True, embeddings=True, **QUICK) as predictor:
        assert predictor.card.labels == ("left", "right", "up", "down")
        (first,) = predictor.predict(video)
        (second,) = predictor.predict([video])
        (part,) = predictor.predict(VideoRange(video, 0.0, 0.2))
        half = predictor.predict(video_folder)
        next(half)
        half.close()  # a consumer may stop early
        (third,) = predictor.predict(video)
    assert first == second == third
    assert len(first["scores"]) == 4
    assert part["end_seconds"] == pytest.approx(0.2)  # of the range, though a clip is longer


def test_an_encoder_has_no_classes_to_predict(tmp_path, video_folder):
    network = build("timm/test_resnet", num_classes=0)
    card = ModelCard(architecture="timm/test_resnet", options={"num_classes": 0})
    save_checkpoint(tmp_path / "images", network, card)
    inflate_checkpoint(
        tmp_path / "images", tmp_path / "encoder", InflationOptions(method="s3d", num_frames=4)
    )
    with pytest.raises(DataError, match="`videopipe embed` writes its features"):
        videopipe.Predictor(tmp_path / "encoder", **QUICK)
    request = TableRequest(model=tmp_path / "encoder", out=tmp_path / "rows.csv")
    with pytest.raises(DataError, match="encoder without a classifying layer"):
        predict_table(request, [video_folder])
    assert not (tmp_path / "rows.csv").exists()
    (video,) = (video_folder / "part0").glob("video00.mp4")
    with videopipe.Predictor(tmp_path / "encoder", embeddings=True, **QUICK) as predictor:
        (row,) = predictor.predict(video)
    assert len(row["embedding"]) == 96


def test_a_network_of_grey_volumes_takes_no_videos(tmp_path, video_folder):
    options = {"num_classes": 2, "in_chans": 1}
    network = build("timm/test_resnet", **options)
    pixels = Preprocessing(image_size=32, resize=32, mean=(0.5,), std=(0.5,))
    card = ModelCard(architecture="timm/test_resnet", options=options, preprocessing=pixels)
    save_checkpoint(tmp_path / "images", network, card)
    inflate_checkpoint(
        tmp_path / "images", tmp_path / "volumes", InflationOptions(axis="depth", num_frames=4)
    )
    with pytest.raises(DataError, match="images of 1 channels, but videos are decoded as RGB"):
        videopipe.Predictor(tmp_path / "volumes", **QUICK)
    request = TableRequest(model=tmp_path / "volumes", out=tmp_path / "rows.csv")
    with pytest.raises(DataError, match="on volumes from Python"):
        predict_table(request, [video_folder])


def test_unknown_keywords_are_named(tiny_model):
    with pytest.raises(TypeError, match="unknown keyword 'wokers'; known are top_k"):
        videopipe.Predictor(tiny_model, wokers=3)


def test_only_what_is_public_is_found():
    assert videopipe.__all__ == ["Predictor", "predict"]
    with pytest.raises(AttributeError, match="has no attribute 'predicct'"):
        videopipe.predicct  # noqa: B018


def test_many_threads_get_the_rows_of_their_own_videos(tiny_model, video_folder):
    """Eight threads, other videos in each, among them files that fail; every row is checked."""
    videos = sorted(str(path) for path in video_folder.rglob("*.*"))
    with videopipe.Predictor(tiny_model, scores=True, **QUICK | {"workers": 2}) as predictor:
        expected = {row["path"]: row for row in predictor.predict(videos)}
        rows: dict[int, list[dict[str, object]]] = {}
        failures: list[BaseException] = []

        def serve(number: int) -> None:
            try:
                for request in range(3):
                    share = videos[(number + request) % 8 :: 8]
                    rows[number * 10 + request] = list(predictor.predict(share))
                    assert [row["path"] for row in rows[number * 10 + request]] != []
                    next(predictor.predict(videos))  # a consumer that stops early
            except BaseException as error:
                failures.append(error)
                raise

        threads = [threading.Thread(target=serve, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not failures
    assert len(rows) == 24
    for key, found in rows.items():
        share = videos[(key // 10 + key % 10) % 8 :: 8]
        assert sorted(row["path"] for row in found) == sorted(share)
        assert all(row == expected[row["path"]] for row in found)


def test_a_closed_predictor_raises_and_running_calls_finish(tiny_model, video_folder):
    videos = sorted(str(path) for path in (video_folder / "part0").iterdir())
    predictor = videopipe.Predictor(tiny_model, **QUICK)
    running = predictor.predict(videos)
    first = next(running)
    predictor.close()
    rows = [first, *running]
    assert sorted(row["path"] for row in rows) == videos
    with pytest.raises(VideopipeError, match="is closed"):
        next(predictor.predict(videos))
