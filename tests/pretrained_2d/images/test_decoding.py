import numpy as np
import pytest
import torch
from PIL import Image

from pretrained_2d.errors import ImageDataError
from pretrained_2d.images.decoding import decode_image, to_image, to_tensor


def test_odd_images_are_read_or_named(shared):
    folder = shared / "data/odd_images"
    lines = (folder / "MANIFEST.tsv").read_text().splitlines()[1:]
    readable = 0
    for line in lines:
        name, _, verdict, _ = line.split("\t")
        if verdict.startswith("ok"):
            pixels = decode_image(folder / name)
            assert pixels.dtype == torch.uint8
            assert pixels.shape[0] == 3
            assert pixels.is_contiguous()
            readable += 1
        else:
            with pytest.raises(ImageDataError, match=name.replace(".", r"\.")):
                decode_image(folder / name)
    assert 0 < readable < len(lines)


def test_sixteen_bits_are_scaled_and_not_cut_off(tmp_path):
    values = np.linspace(0, 65535, 64 * 64).reshape(64, 64).astype(np.uint16)
    Image.fromarray(values).save(tmp_path / "deep.png")
    pixels = decode_image(tmp_path / "deep.png")
    assert pixels.float().mean().item() == pytest.approx(127.5, abs=1)
    assert (pixels == 255).float().mean() < 0.01


def test_rotated_pictures_are_read_upright(tmp_path):
    upright = Image.new("RGB", (8, 4), "black")
    upright.putpixel((0, 0), (255, 255, 255))
    turned = upright.rotate(90, expand=True)
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned: show it turned back by 90°
    turned.save(tmp_path / "turned.png", exif=exif)
    assert torch.equal(decode_image(tmp_path / "turned.png"), to_tensor(upright))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ImageDataError, match=r"gone\.png: there is no such file"):
        decode_image(tmp_path / "gone.png")


def test_tensors_and_images_are_the_same_thing():
    pixels = torch.randint(0, 256, (3, 5, 7), dtype=torch.uint8)
    assert torch.equal(to_tensor(to_image(pixels)), pixels)
