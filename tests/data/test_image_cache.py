"""Decoding once: the transform against torchvision's, interruptions, broken images, two builders at a time."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import fakes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from torchvision import transforms

import fedcopl_lab.data._image_cache as caching
from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.data import ImageSource, cached_images


def as_clip_does(image, size):
    steps = [
        transforms.Resize(size, interpolation=transforms.InterpolationMode.BICUBIC),
        transforms.CenterCrop(size),
        lambda picture: picture.convert("RGB"),
    ]
    for step in steps:
        image = step(image)
    return np.asarray(image).transpose(2, 0, 1)


@settings(max_examples=60)
@given(
    width=st.integers(3, 90),
    height=st.integers(3, 90),
    size=st.integers(2, 40),
    mode=st.sampled_from(["RGB", "L", "P", "RGBA", "CMYK", "1"]),
    seed=st.integers(0, 5),
)
def test_same_pixels_as_clips_own_transform(width, height, size, mode, seed):
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    image = Image.fromarray(pixels).convert(mode)
    assert np.array_equal(caching.square(image, size), as_clip_does(image, size))


@pytest.fixture
def files(tmp_path):
    folder = tmp_path / "images"
    folder.mkdir()
    names = []
    for i in range(200):
        ending = ("jpg", "png")[i % 2]
        names.append(f"{i:03d}.{ending}")
        (folder / names[-1]).write_bytes(fakes.picture((40 + i % 7, 36), i, {"jpg": "JPEG", "png": "PNG"}[ending]))
    return ImageSource(None, folder, tuple(names), np.arange(200, dtype=np.int64) % 5, 150)


@pytest.fixture
def decoded(monkeypatch):
    """One entry per image that was decoded."""
    count, real = [], caching.square
    monkeypatch.setattr(caching, "square", lambda *a: count.append(1) or real(*a))
    return count


def build(source, folder, **options):
    return cached_images(source, "content", 24, folder, progress=False, **{"workers": 2, **options})


def test_every_image_is_in_its_place(files, tmp_path):
    cached = build(files, tmp_path / "cache")
    for position in (0, 1, 63, 64, 127, 128, 199):
        with Image.open(files.root / files.names[position]) as image:
            assert np.array_equal(cached.pixels[position], as_clip_does(image, 24))
    cached.pixels[0] = 0  # a private copy: the file stays
    assert build(files, tmp_path / "cache").pixels[0].any()
    assert "\n" not in repr(cached)


def test_broken_and_missing_images_are_named_and_the_rest_is_kept(files, tmp_path, decoded):
    broken, gone = files.root / files.names[70], files.root / files.names[150]
    whole, other = broken.read_bytes(), gone.read_bytes()
    broken.write_bytes(whole[:150])
    gone.unlink()
    with pytest.raises(FedCoPLError, match=r"2 of 200 images .* 070\.jpg \(.*\); 150\.jpg \(.*No such file") as caught:
        build(files, tmp_path / "cache")
    assert "\n" not in str(caught.value)
    broken.write_bytes(whole)
    gone.write_bytes(other)
    decoded.clear()
    repaired = build(files, tmp_path / "cache")
    assert len(decoded) == 64 + 64, "only the chunks of the two images"
    fresh = build(files, tmp_path / "fresh", workers=3)
    assert repaired.sha256 == fresh.sha256
    assert np.array_equal(repaired.pixels, fresh.pixels), "workers do not change a byte"
    for name in files.names[:9]:
        (files.root / name).write_bytes(b"")
    with pytest.raises(FedCoPLError, match=r"9 of 200 .* and 4 more"):
        build(files, tmp_path / "another")


CHILD = """
    import sys, time
    from pathlib import Path
    import numpy as np
    import fedcopl_lab.data._image_cache as caching
    from fedcopl_lab.data import ImageSource, cached_images
    folder = Path(sys.argv[1])
    names = tuple(sorted(path.name for path in folder.iterdir()))
    real, count = caching.square, []
    def stalling(*arguments):
        count.append(1)
        if len(count) == 140:
            print("stalled", flush=True)
            time.sleep(60)
        return real(*arguments)
    caching.square = stalling
    source = ImageSource(None, folder, names, np.arange(200, dtype=np.int64) % 5, 150)
    cached_images(source, "content", 24, Path(sys.argv[2]), workers=1, progress=False)
"""


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL")
def test_a_build_that_was_killed_goes_on(files, tmp_path, decoded):
    command = [sys.executable, "-c", textwrap.dedent(CHILD), str(files.root), str(tmp_path / "cache")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "stalled\n"
        child.send_signal(signal.SIGKILL)
    log = next((tmp_path / "cache").glob("*/chunks.log"))
    assert len(log.read_text().splitlines()) == 2
    with open(log, "a") as file:
        file.write("2 half-writ")  # as a kill in the middle of a line leaves it
    pixels = log.parent / "pixels.u8"
    content = bytearray(pixels.read_bytes())
    content[10] ^= 1  # as a power cut may leave it: the first chunk is not what the log says
    pixels.write_bytes(content)
    resumed = build(files, tmp_path / "cache")
    assert len(decoded) == 200 - 64
    assert resumed.sha256 == build(files, tmp_path / "fresh").sha256


@pytest.mark.parametrize("size", [None, 0, 150_000])
def test_pixels_that_were_lost_are_decoded_again(files, tmp_path, decoded, size):
    first = build(files, tmp_path / "cache")
    pixels, sha256 = np.array(first.pixels), first.sha256
    decoded.clear()
    (first.path / "pixels.u8").unlink() if size is None else os.truncate(first.path / "pixels.u8", size)
    again = build(files, tmp_path / "cache")
    assert len(decoded) == (200 - 64 if size else 200)
    assert again.sha256 == sha256
    assert np.array_equal(again.pixels, pixels)


@pytest.mark.parametrize("text", ["{", '"sha256', "[]"])
def test_a_cut_off_meta_is_built_again(files, tmp_path, text):
    first = build(files, tmp_path / "cache")
    (first.path / "meta.json").write_text(text)
    assert build(files, tmp_path / "cache").sha256 == first.sha256


@pytest.mark.parametrize(("mode", "level"), [("I;16", 40_000), ("I", 40_000), ("F", 0.5)])
def test_more_than_8_bits_are_refused_and_not_cut_off(mode, level):
    with pytest.raises(FedCoPLError, match=f"more than 8 bits .mode {mode}.; save it with 8 bits a channel"):
        caching.square(Image.new(mode, (8, 8), level), 8)


def test_two_threads_build_once(files, tmp_path, decoded):
    found = []
    both = [threading.Thread(target=lambda: found.append(build(files, tmp_path / "cache"))) for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert len(decoded) == 200
    assert found[0].sha256 == found[1].sha256


def test_other_content_size_or_split_is_another_cache(files, tmp_path):
    folder = tmp_path / "cache"
    build(files, folder)
    cached_images(files, "other", 24, folder, progress=False)
    cached_images(files, "content", 16, folder, progress=False)
    build(ImageSource(None, files.root, files.names, files.labels, 149), folder)
    assert len(list(folder.iterdir())) == 4


def test_too_little_space_and_a_folder_that_cannot_be_made(files, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(FedCoPLError, match=r"cannot write .* point FEDCOPL_LAB_DATA"):
        build(files, tmp_path / "file" / "cache")
    monkeypatch.setattr(caching.shutil, "disk_usage", lambda path: type("Usage", (), {"free": 1000})())
    with pytest.raises(FedCoPLError, match=r"need 0\.0 GB, but .* free some space"):
        build(files, tmp_path / "cache")


def test_meta_says_what_the_pixels_are(files, tmp_path):
    cached = build(files, tmp_path)
    meta = json.loads((Path(cached.path) / "meta.json").read_text())
    assert meta == {"shape": [200, 3, 24, 24], "sha256": cached.sha256, "transform": caching.TRANSFORM}
