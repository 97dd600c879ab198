"""What a manifest says about the files of a set: where they are, how large, and how to know them."""

from dataclasses import dataclass
from pathlib import PurePosixPath

from fedcopl_lab.data._fields import Fields


@dataclass(frozen=True)
class SourceFile:
    """One file to download.

    Attributes:
        name: its name in the set's folder.
        urls: addresses to try in this order; empty when it must be fetched by hand.
        size: bytes, 0 when unknown.
        md5: checksum, empty when unknown.
        sha256: checksum, empty when unknown.
        unpack: folder, relative to the set's, into which the archive is unpacked; empty: it stays as it is.
        by_hand: how to get it when no program can.
    """

    name: str
    urls: tuple[str, ...]
    size: int
    md5: str
    sha256: str
    unpack: str
    by_hand: str

    @property
    def checksum(self) -> str:
        """``"sha256:..."`` or ``"md5:..."``, the stronger of the known ones, or empty."""
        return f"sha256:{self.sha256}" if self.sha256 else f"md5:{self.md5}" if self.md5 else ""

    def __repr__(self) -> str:
        return f"SourceFile({self.name}, {self.size or 'unknown'} bytes, {self.checksum or 'no checksum'})"


@dataclass(frozen=True)
class Member:
    """A file inside an archive whose checksum is published.

    Attributes:
        path: relative to the set's folder.
        md5: checksum.
    """

    path: str
    md5: str


@dataclass(frozen=True)
class Normalisation:
    """Channel means and standard deviations (of pixels in 0..1) that a paper's code uses.

    Attributes:
        mean: in training.
        std: in training.
        mean_at_test: for the test images.
        std_at_test: for the test images.
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]
    mean_at_test: tuple[float, ...]
    std_at_test: tuple[float, ...]


def source_files(fields: Fields) -> tuple[SourceFile, ...]:
    """The files of a manifest, checked."""
    return tuple(_source_file(table) for table in fields.tables("files"))


def _source_file(table: Fields) -> SourceFile:
    name = table.text("name")
    if PurePosixPath(name).name != name:
        raise table.problem("name", f"is {name!r}; expected a file name without folders")
    urls = table.texts("urls", ())
    by_hand = table.text("by_hand", "none") if table.has("by_hand") else ""
    if not urls and not by_hand:
        raise table.problem("urls", "is empty; expected an address, or by_hand to say how to get the file")
    return SourceFile(
        name=name,
        urls=urls,
        size=table.count("bytes", 0),
        md5=table.checksum("md5", 32),
        sha256=table.checksum("sha256", 64),
        unpack=table.text("unpack") if table.has("unpack") else "",
        by_hand=by_hand,
    )


def members_of(fields: Fields) -> tuple[Member, ...]:
    """The members with published checksums."""
    return tuple(Member(table.text("path"), table.checksum("md5", 32)) for table in fields.tables("members"))


def normalisation_of(fields: Fields) -> Normalisation | None:
    """Channel statistics, when the manifest has them."""
    if not fields.has("normalisation"):
        return None
    mean, std = fields.numbers("normalisation.mean"), fields.numbers("normalisation.std")
    at_test = [
        fields.numbers(f"normalisation.{name}_at_test") if fields.has(f"normalisation.{name}_at_test") else value
        for name, value in (("mean", mean), ("std", std))
    ]
    return Normalisation(mean, std, at_test[0], at_test[1])
