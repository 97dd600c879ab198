"""Images decoded and resized once, as CLIP does it, into one memory-mapped file of uint8 pixels."""

import hashlib
import json
import math
import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

import numpy as np
import numpy.typing as npt
import torch
from filelock import FileLock
from jaxtyping import UInt8
from joblib import cpu_count
from PIL import Image
from torch import Tensor
from tqdm.auto import tqdm

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab._files import to_json, write_atomic
from fedcopl_lab.data._image_source import ImageSource

# Part of every cache's name: raise it when the same files would give other pixels.
TRANSFORM = "clip-bicubic-1"
_IMAGES_PER_CHUNK = 64
_NAMES_SHOWN = 5

Shape = tuple[int, int, int, int]


def square(image: Image.Image, size: int) -> npt.NDArray[np.uint8]:
    """CLIP's own transform up to the tensor: short side to ``size`` by bicubic, centre crop, RGB; ``[3, size, size]``.

    The conversion to RGB comes last, as in CLIP; it matters for palette images.
    """
    if image.mode == "F" or image.mode.startswith("I"):  # Pillow would cut these numbers off at 255
        raise FedCoPLError(f"its pixels have more than 8 bits (mode {image.mode}); save it with 8 bits a channel")
    width, height = image.size
    short, long = min(width, height), max(width, height)
    if short != size:
        other = int(size * long / short)
        image = image.resize((size, other) if width <= height else (other, size), Image.Resampling.BICUBIC)
    width, height = image.size
    left, top = round((width - size) / 2.0), round((height - size) / 2.0)
    if (width, height) != (size, size):
        image = image.crop((left, top, left + size, top + size))
    return np.asarray(image.convert("RGB"), dtype=np.uint8).transpose(2, 0, 1)


def resized(images: UInt8[Tensor, "n 3 h w"], size: int) -> UInt8[Tensor, "n 3 size size"]:
    """Images in memory at another size, by the transform of the cache; the same tensor where nothing changes.

    >>> resized(torch.zeros(2, 3, 8, 8, dtype=torch.uint8), 32).shape
    torch.Size([2, 3, 32, 32])
    """
    if images.shape[2:] == (size, size):
        return images
    pixels = images.numpy().transpose(0, 2, 3, 1)
    return torch.from_numpy(np.stack([square(Image.fromarray(one), size) for one in pixels]))


@dataclass(frozen=True, eq=False)
class CachedImages:
    """Images that are ready to use."""

    # uint8 [n, 3, size, size], mapped from the file; writing to it does not change the file
    pixels: npt.NDArray[np.uint8]
    sha256: str  # of the pixels, chunk by chunk
    path: Path  # the folder of the cache

    def __repr__(self) -> str:
        return f"CachedImages({len(self.pixels)} images of {self.pixels.shape[-1]} pixels in {self.path})"


def cached_images(
    source: ImageSource, content_sha256: str, size: int, folder: Path, workers: int | None = None, progress: bool = True
) -> CachedImages:
    """The images of a source at one size, decoded now or earlier.

    A build that was stopped at any moment goes on with the images that are missing; two processes build once.

    Args:
        source: the images.
        content_sha256: identity of their content, part of the cache's name.
        size: height and width in pixels.
        folder: where caches are kept.
        workers: images decoded at a time; None takes one per core.
        progress: show a bar.

    Raises:
        FedCoPLError: images that are missing or broken, by name; too little space on the disk.

    >>> source = ImageSource(np.zeros((2, 3, 8, 8), dtype=np.uint8), Path("."), (), np.arange(2), 1)
    >>> cached_images(source, "sha256 of the content", 16, Path("cache"), progress=False).pixels.shape
    (2, 3, 16, 16)
    """
    if size < 1:
        raise FedCoPLError(f"image_size={size} is below 1; choose the side in pixels, such as 224")
    key = hashlib.sha256(f"{TRANSFORM} {size} {content_sha256} {source.listing_sha256}".encode()).hexdigest()
    target = folder / f"{size}px-{key[:16]}"
    shape = (len(source), 3, size, size)
    if not _is_built(target, shape):
        try:
            target.mkdir(parents=True, exist_ok=True)
            with FileLock(target / "lock"):
                if not _is_built(target, shape):
                    _build(source, target, shape, workers or cpu_count(), progress)
        except OSError as error:
            way_out = "free some space, or point FEDCOPL_LAB_DATA to a folder that is writable"
            raise FedCoPLError(f"cannot write {target} ({error.strerror}); {way_out}") from error
    meta = json.loads((target / "meta.json").read_text())
    # Mode c: arrays and tensors of it are writable, the file stays as it is.
    pixels = np.memmap(target / "pixels.u8", dtype=np.uint8, mode="c", shape=shape)
    return CachedImages(pixels, meta["sha256"], target)


def _is_built(target: Path, shape: Shape) -> bool:
    pixels = target / "pixels.u8"
    try:
        return "sha256" in json.loads((target / "meta.json").read_text()) and pixels.stat().st_size == math.prod(shape)
    except (OSError, ValueError):  # not there, or cut off
        return False


def _build(source: ImageSource, target: Path, shape: Shape, workers: int, progress: bool) -> None:
    bounds = [(start, min(start + _IMAGES_PER_CHUNK, shape[0])) for start in range(0, shape[0], _IMAGES_PER_CHUNK)]
    (target / "meta.json").unlink(missing_ok=True)  # where pixels were lost, until they are all there again
    _reserve(target, shape)
    digests = _finished(target, bounds, shape, workers)
    missing = [chunk for chunk in range(len(bounds)) if chunk not in digests]
    broken: list[str] = []
    done, name = sum(bounds[c][1] - bounds[c][0] for c in digests), f"decode to {shape[-1]} px"
    hidden = {"disable": not progress, "leave": False, "delay": 1.0}  # seconds: a few pictures need no bar
    bar = tqdm(total=shape[0], initial=done, unit="image", desc=name, **hidden)
    with open(target / "chunks.log", "a", encoding="ascii") as log, bar, _threads(workers) as pool:
        lock = Lock()

        def decode(chunk: int) -> None:
            digest, problems = _chunk(source, target, bounds[chunk], shape)
            with lock:
                broken.extend(problems)
                if not problems:
                    digests[chunk] = digest
                    log.write(f"{chunk} {digest}\n")
                    log.flush()
                bar.update(bounds[chunk][1] - bounds[chunk][0])

        for job in as_completed([pool.submit(decode, chunk) for chunk in missing]):
            job.result()
    if broken:
        shown = "; ".join(sorted(broken)[:_NAMES_SHOWN])
        rest = f"; and {len(broken) - _NAMES_SHOWN} more" if len(broken) > _NAMES_SHOWN else ""
        raise FedCoPLError(
            f"{len(broken)} of {shape[0]} images in {source.root} cannot be read: {shown}{rest}; put these files back "
            "and load again: the others are kept"
        )
    with open(target / "pixels.u8", "r+b") as file:
        os.fsync(file.fileno())
    whole = hashlib.sha256("".join(digests[chunk] for chunk in range(len(bounds))).encode()).hexdigest()
    write_atomic(target / "meta.json", to_json({"shape": list(shape), "sha256": whole, "transform": TRANSFORM}))


def _reserve(target: Path, shape: Shape) -> None:
    path, wanted = target / "pixels.u8", int(np.prod(shape, dtype=np.int64))
    have = path.stat().st_blocks * 512 if path.is_file() and hasattr(os.stat_result, "st_blocks") else 0
    free = shutil.disk_usage(target).free
    if wanted - have > free:
        raise FedCoPLError(
            f"{shape[0]} images of {shape[-1]} pixels need {wanted / 1e9:.1f} GB, but {target} has {free / 1e9:.1f} GB "
            "free; free some space, choose a smaller image_size, or point FEDCOPL_LAB_DATA elsewhere"
        )
    with open(path, "ab"):
        pass
    os.truncate(path, wanted)


def _finished(target: Path, bounds: list[tuple[int, int]], shape: Shape, workers: int) -> dict[int, str]:
    """Chunks of an earlier build whose pixels are still those that were written, with their checksums."""
    log = target / "chunks.log"
    lines = [line.split() for line in log.read_text(encoding="ascii").splitlines()] if log.is_file() else []
    claimed = {int(line[0]): line[1] for line in lines if len(line) == 2 and len(line[1]) == 64}
    claimed = {chunk: digest for chunk, digest in claimed.items() if chunk < len(bounds)}

    def found(chunk: int) -> str:
        start, stop = bounds[chunk]
        per_image = int(np.prod(shape[1:]))
        with open(target / "pixels.u8", "rb") as file:
            file.seek(start * per_image)
            return hashlib.sha256(file.read((stop - start) * per_image)).hexdigest()

    with _threads(workers) as pool:
        pairs = zip(claimed, pool.map(found, claimed), strict=True)
        kept = {chunk: digest for chunk, digest in pairs if claimed[chunk] == digest}
    write_atomic(log, "".join(f"{chunk} {digest}\n" for chunk, digest in kept.items()))
    return kept


@contextmanager
def _threads(workers: int) -> Iterator[ThreadPoolExecutor]:
    # Threads, not processes: Pillow, NumPy and hashlib let go of the interpreter while they work.
    pool = ThreadPoolExecutor(max_workers=workers)
    try:
        yield pool
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _chunk(source: ImageSource, target: Path, bounds: tuple[int, int], shape: Shape) -> tuple[str, list[str]]:
    """Decode one chunk into its place; its checksum, and the images that cannot be read."""
    start, stop = bounds
    pixels = np.zeros((stop - start, *shape[1:]), dtype=np.uint8)
    problems = []
    for position in range(start, stop):
        try:
            with _image(source, position) as image:
                pixels[position - start] = square(image, shape[-1])
        except Exception as error:  # Pillow raises many kinds for a broken file; each is named, none is passed over
            name = source.names[position] if source.names else f"image {position}"
            problems.append(f"{name} ({' '.join(str(error).split()) or type(error).__name__})")
    data = pixels.tobytes()
    if not problems:
        with open(target / "pixels.u8", "r+b") as file:
            file.seek(start * int(np.prod(shape[1:])))
            file.write(data)
    return hashlib.sha256(data).hexdigest(), problems


def _image(source: ImageSource, position: int) -> Image.Image:
    if source.pixels is not None:
        return Image.fromarray(source.pixels[position].transpose(1, 2, 0))
    return Image.open(source.root / source.names[position])
