"""The ways that `bench_decode.py` compares: our backends, and the libraries used directly."""

from collections.abc import Callable

WAYS = (
    "auto", "av", "torchcodec", "decord", "pytorchvideo",
    "plain torchcodec", "plain decord", "pytorchvideo decord", "pytorchvideo pyav",
)  # fmt: skip


def reader_of(way: str, short_side: int | None) -> Callable:
    """(file, times) -> frames (time, channels, height, width)."""
    if way in ("auto", "av", "torchcodec", "decord", "pytorchvideo"):
        from videopipe.video.video import open_video

        def ours(file: str, times: list[float]):
            with open_video(file, way, short_side) as video:
                return video.frames_at(times)

        return ours
    return {
        "plain torchcodec": plain_torchcodec,
        "plain decord": plain_decord,
        "pytorchvideo decord": lambda file, times: plain_pytorchvideo(file, times, "decord"),
        "pytorchvideo pyav": lambda file, times: plain_pytorchvideo(file, times, "pyav"),
    }[way]


def plain_torchcodec(file: str, times: list[float]):
    from torchcodec.decoders import VideoDecoder

    decoder = VideoDecoder(file, num_ffmpeg_threads=1)
    begin = decoder.metadata.begin_stream_seconds
    last = decoder.metadata.end_stream_seconds - 1e-3
    return decoder.get_frames_played_at([min(begin + t, last) for t in times]).data


def plain_decord(file: str, times: list[float]):
    import decord
    import torch

    reader = decord.VideoReader(file, num_threads=1)
    rate = reader.get_avg_fps()
    batch = reader.get_batch([min(int(t * rate), len(reader) - 1) for t in times])
    return torch.from_numpy(batch.asnumpy()).permute(0, 3, 1, 2)


def plain_pytorchvideo(file: str, times: list[float], decoder: str):
    """As the authors' loader: decode the clip, make it float, then take some of its frames."""
    import torch
    from pytorchvideo.data.encoded_video import EncodedVideo

    video = EncodedVideo.from_path(file, decode_audio=False, decoder=decoder)
    half_step = (times[1] - times[0]) / 2 if len(times) > 1 else 0.5
    clip = video.get_clip(times[0] - half_step, times[-1] + half_step)["video"]
    chosen = torch.linspace(0, clip.shape[1] - 1, len(times)).long()
    return clip[:, chosen].permute(1, 0, 2, 3)
