"""Archives that try to leave their folder, lie about their size or are broken."""

import hashlib
import io
import tarfile
import zipfile
from contextlib import suppress
from pathlib import Path

import fakes
import pytest

from fedcopl_lab.data._unpack import UnpackError, unpack


def make_tar(path, *members):
    with tarfile.open(path, "w:gz") as archive:
        for name, content, *kind in members:
            info = tarfile.TarInfo(name)
            if kind:
                info.type, info.linkname = kind[0], content
                archive.addfile(info)
            elif content is None:
                info.type = tarfile.DIRTYPE
                archive.addfile(info)
            else:
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
    return path


@pytest.fixture(params=["tar", "zip"])
def archive(request, tmp_path):
    make = make_tar if request.param == "tar" else lambda path, *members: fakes.zipped(path, dict(members))
    return lambda *members: make(tmp_path / f"set.{request.param}", *members)


def left_in(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_everything_is_there_and_listed(archive, tmp_path):
    path = archive(("top/a.txt", b"one"), ("top/deep/b.txt", b"two"), ("c.txt", b""))
    listing = unpack(path, tmp_path / "out", progress=False)
    assert left_in(tmp_path / "out") == ["c.txt", "top/a.txt", "top/deep/b.txt"]
    assert (tmp_path / "out/top/deep/b.txt").read_bytes() == b"two"
    expected = {"top/a.txt": b"one", "top/deep/b.txt": b"two", "c.txt": b""}
    assert listing == {name: (len(b), hashlib.sha256(b).hexdigest()) for name, b in expected.items()}


@pytest.mark.parametrize("name", ["../out.txt", "/etc/out.txt", "a/../../out.txt", "..\\out.txt", "C:\\out.txt"])
def test_nothing_leaves_the_folder(archive, tmp_path, name):
    path = archive(("fine.txt", b"x"), (name, b"evil"))
    with suppress(UnpackError):
        unpack(path, tmp_path / "out", progress=False)
    assert [file for file in left_in(tmp_path) if not file.startswith("out/")] == [path.name]
    assert not Path("/etc/out.txt").exists()


def test_links_inside_read_as_what_they_point_to(tmp_path):
    links = ("dir/soft", "a", tarfile.SYMTYPE), ("hard", "dir/a", tarfile.LNKTYPE)
    path = make_tar(tmp_path / "set.tar", ("dir/a", b"content"), *links)
    assert {*unpack(path, tmp_path / "out", progress=False)} == {"dir/a", "dir/soft", "hard"}
    assert all((tmp_path / "out" / name).read_bytes() == b"content" for name in ("dir/soft", "hard"))


@pytest.mark.parametrize(
    ("target", "kind"),
    [
        *((out, kind) for out in ("/etc/passwd", "../../secret") for kind in b"12"),
        ("", tarfile.FIFOTYPE[0]),
        ("", tarfile.CHRTYPE[0]),
    ],
)
def test_links_out_and_special_files_are_refused(tmp_path, target, kind):
    path = make_tar(tmp_path / "set.tar", ("dir/file", b"content"), ("dir/link", target, bytes([kind])))
    with pytest.raises(UnpackError, match=r"dir/link|secret"):
        unpack(path, tmp_path / "out", progress=False)
    assert left_in(tmp_path / "out") == []


def test_a_link_in_a_zip_becomes_a_plain_file(tmp_path):
    with zipfile.ZipFile(tmp_path / "set.zip", "w") as archive:
        info = zipfile.ZipInfo("link")
        info.external_attr = 0o120777 << 16
        archive.writestr(info, "/etc/passwd")
    unpack(tmp_path / "set.zip", tmp_path / "out", progress=False)
    assert not (tmp_path / "out" / "link").is_symlink()
    assert (tmp_path / "out" / "link").read_bytes() == b"/etc/passwd"


def test_too_much_is_refused(archive, tmp_path):
    path = archive(("a", bytes(1000)), ("b", bytes(5_000_000)))
    with pytest.raises(UnpackError, match="unpacks to 4901000 bytes too many"):
        unpack(path, tmp_path / "out", progress=False, max_bytes=100_000)
    with pytest.raises(UnpackError, match="unpacks to too many files"):
        unpack(path, tmp_path / "out", progress=False, max_files=1)
    assert left_in(tmp_path / "out") == []


@pytest.mark.parametrize("content", [b"", b"no archive at all", b"PK\x03\x04 broken", b"\x1f\x8b\x08 broken"])
def test_a_broken_archive_is_named(tmp_path, content):
    path = tmp_path / "set.tar.gz"
    path.write_bytes(content)
    with pytest.raises(UnpackError, match=r"set\.tar\.gz") as caught:
        unpack(path, tmp_path / "out", progress=False)
    assert "\n" not in str(caught.value)


def test_a_truncated_archive_leaves_nothing(archive, tmp_path):
    path = archive(("top/a.bin", bytes(range(256)) * 4000), ("top/b.bin", b"last"))
    path.write_bytes(path.read_bytes()[:-800])
    with pytest.raises(UnpackError, match="fetch it again"):
        unpack(path, tmp_path / "out", progress=False)
    assert left_in(tmp_path / "out") == []


def test_other_files_in_the_way_are_kept_and_equal_ones_are_fine(archive, tmp_path):
    path = archive(("top/a", b"one"), ("rest", b"two"))
    (tmp_path / "out/top").mkdir(parents=True)
    (tmp_path / "out/top/a").write_bytes(b"mine, other size")
    with pytest.raises(UnpackError, match="is there already with other files"):
        unpack(path, tmp_path / "out", progress=False)
    assert (tmp_path / "out/top/a").read_bytes() == b"mine, other size"
    (tmp_path / "out/top/a").write_bytes(b"one")  # as after a call that was stopped while moving
    unpack(path, tmp_path / "out", progress=False)
    assert left_in(tmp_path / "out") == ["rest", "top/a"]
