"""Downloads from a real HTTP server that cuts, lies, stalls, refuses and forgets."""

import contextlib
import dataclasses
import hashlib
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest
from faulty_server import FaultyServer
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcopl_lab.data import DownloadError
from fedcopl_lab.data._download import Patience, _content_range, fetch
from fedcopl_lab.data._manifests import SourceFile

CONTENT = np.random.default_rng(0).bytes(300_000)


def source(server, content=CONTENT, name="set.bin", **changes):
    server.files[name] = content
    sha256 = hashlib.sha256(content).hexdigest()
    known = SourceFile(name, (server.url + name,), len(content), "", sha256, unpack="", by_hand="")
    return dataclasses.replace(known, **changes)


@pytest.fixture
def get(tmp_path, patience):
    def run(file, **options):
        return fetch(file, tmp_path / "set", patience, progress=False, **options)

    return run


def beside(path):
    return sorted(entry.name for entry in path.iterdir())


def test_a_file_arrives_and_nothing_is_left_beside_it(server, get):
    path = get(source(server))
    assert path.read_bytes() == CONTENT
    assert beside(path.parent) == ["set.bin"]
    assert get(source(server)) == path
    assert len(server.requests) == 1, "what is there is not fetched again"


@pytest.mark.parametrize("reset", [False, True])
def test_cut_connections_are_resumed(server, get, reset):
    server.faults = [{"cut": 90_000, "reset": reset} for _ in range(3)]
    assert get(source(server)).read_bytes() == CONTENT
    assert next(asked for _, asked in server.requests) is None
    assert all(asked.startswith("bytes=") for _, asked in server.requests[1:])
    if not reset:
        assert [asked for _, asked in server.requests[1:]] == ["bytes=90000-", "bytes=180000-", "bytes=270000-"]
        assert server.body_bytes == len(CONTENT)


def test_the_next_call_completes_what_an_earlier_one_left(server, get, tmp_path):
    server.faults = [{"cut": 100_000}, *[{"status": 503}] * 3]
    with pytest.raises(DownloadError, match=r"HTTP 503 .* 100000 bytes are kept, call again to go on"):
        get(source(server))
    assert beside(tmp_path / "set") == ["set.bin.part"]
    assert get(source(server)).read_bytes() == CONTENT
    assert server.body_bytes == len(CONTENT)
    assert beside(tmp_path / "set") == ["set.bin"]


def test_server_that_ignores_range_sends_all_again_and_is_given_up_when_it_cuts(server, get):
    server.faults = [{"cut": 100_000}, {"ignore_range": True}]
    path = get(source(server))
    assert path.read_bytes() == CONTENT
    assert server.body_bytes == 100_000 + len(CONTENT)
    path.unlink()
    server.faults = [{"cut": 100_000, "ignore_range": True}] * 9
    with pytest.raises(DownloadError, match="3 times in a row without a new byte"):
        get(source(server))


@pytest.mark.parametrize(  # "shift": another range than the one asked for
    "faults", [[{"cut": 100_000}, {"shift": 5}], [{"status": 503, "headers": {"Retry-After": "1"}}, {"status": 429}]]
)
def test_what_the_server_says_is_noticed(server, get, faults):
    server.faults = faults
    assert get(source(server)).read_bytes() == CONTENT


def test_pauses_grow_and_follow_what_the_server_asks():
    assert Patience().pause(1, 5.0) == 5.0
    assert [Patience().pause(failures) for failures in (3, 30)] == [4.0, 60.0]


@pytest.mark.parametrize("fault", [{"lie": -1000}, {"no_length": True, "cut": 250_000}])
def test_a_lie_about_the_length_never_gives_a_wrong_file(server, get, tmp_path, fault):
    unknown_size = source(server, size=0)
    server.faults = [fault]
    with pytest.raises(DownloadError, match=r"did not arrive: .* what arrived has sha256"):
        get(unknown_size)
    assert not (tmp_path / "set" / "set.bin").exists()
    assert get(unknown_size).read_bytes() == CONTENT


def test_a_whole_part_of_unknown_size_survives_a_server_without_ranges(server, get, tmp_path):
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "set.bin.part").write_bytes(CONTENT)
    server.faults = [{"ignore_range": True}]
    assert get(source(server, size=0)).read_bytes() == CONTENT


def test_a_length_that_promises_too_much_does_no_harm(server, get):
    server.faults = [{"lie": 1000}]
    assert get(source(server, size=0)).read_bytes() == CONTENT
    assert server.body_bytes == len(CONTENT)


def test_another_length_than_the_manifests_is_refused_before_it_is_loaded(server, get):
    with pytest.raises(DownloadError, match="a file of 300000 bytes, the manifest says 299999"):
        get(source(server, size=len(CONTENT) - 1))
    assert server.body_bytes < len(CONTENT) + 1


def test_wrong_bytes_are_kept_and_named(server, get, tmp_path):
    server.faults = [{"content": bytes(len(CONTENT))}]
    with pytest.raises(DownloadError, match=r"what arrived has sha256 .* it is kept as .*set\.bin\.bad"):
        get(source(server))
    assert (tmp_path / "set" / "set.bin.bad").read_bytes() == bytes(len(CONTENT))
    assert not (tmp_path / "set" / "set.bin").exists()


def test_a_wrong_file_that_is_there_stays_until_it_is_told_to_go(server, get, tmp_path):
    path = get(source(server))
    changed = bytes([CONTENT[0] ^ 1]) + CONTENT[1:]
    path.write_bytes(changed)
    with pytest.raises(DownloadError, match=r"set\.bin has sha256 .* it is kept: .* --replace"):
        get(source(server))
    assert path.read_bytes() == changed
    assert get(source(server), replace=True).read_bytes() == CONTENT
    assert (tmp_path / "set" / "set.bin.bad").read_bytes() == changed


@pytest.mark.parametrize("status", [403, 404])
def test_a_refusal_is_final_and_the_next_address_is_tried(server, get, status):
    server.faults = [{"status": status}]
    with pytest.raises(DownloadError, match=rf"HTTP {status} .*get set\.bin in a browser and put it into"):
        get(source(server))
    assert len(server.requests) == 1
    server.faults = [{"status": status}]
    mirrored = source(server, urls=(server.url + "gone.bin", server.url + "set.bin"))
    assert get(mirrored).read_bytes() == CONTENT


def test_a_mirror_goes_on_where_the_first_address_failed(server, get):
    server.files["copy.bin"] = CONTENT
    server.faults = [{"cut": 200_000}, *[{"status": 500}] * 3]
    assert get(source(server, urls=(server.url + "set.bin", server.url + "copy.bin"))).read_bytes() == CONTENT
    assert server.requests[-1] == ("copy.bin", "bytes=200000-")
    assert server.body_bytes == len(CONTENT)


def test_a_stall_ends_after_the_read_timeout(server, get):
    server.faults = [{"stall": 100_000}]
    start = time.perf_counter()
    assert get(source(server)).read_bytes() == CONTENT
    assert time.perf_counter() - start < 5
    server.faults = [{"stall": 0}] * 3
    with pytest.raises(DownloadError, match="the server stopped answering"):
        get(source(server, name="other.bin"))


def test_no_server_at_all_and_a_complete_part_that_needs_none(get, server, tmp_path):
    with pytest.raises(DownloadError, match="did not arrive"):
        get(source(server, urls=("http://127.0.0.1:9/set.bin",)))
    (tmp_path / "set" / "set.bin.part").write_bytes(CONTENT)
    assert get(source(server)).read_bytes() == CONTENT
    assert server.requests == []


def test_a_part_that_is_too_long_starts_over(server, get, tmp_path):
    for size in (len(CONTENT), 0):
        (tmp_path / "set").mkdir(exist_ok=True)
        (tmp_path / "set" / "set.bin.part").write_bytes(CONTENT + b"more")
        path = get(source(server, size=size))
        assert path.read_bytes() == CONTENT
        path.unlink()


def test_without_a_checksum_the_size_is_compared_and_without_an_address_a_person_is_asked(server, get):
    with pytest.raises(DownloadError, match="cannot be fetched by a program: ask the authors; then put it into"):
        get(source(server, urls=(), by_hand="ask the authors"))
    plain = source(server, sha256="")
    assert get(plain).read_bytes() == CONTENT
    with pytest.raises(DownloadError, match="has 300000 bytes, but its manifest says 5"):
        get(dataclasses.replace(plain, size=5))


def test_progress_says_rate_and_time_left(server, tmp_path, patience, capfd):
    fetch(source(server), tmp_path, patience, progress=True)
    shown = capfd.readouterr().err
    assert all(text in shown for text in ("set.bin", "B/s"))


@settings(max_examples=15)
@given(cuts=st.lists(st.integers(0, 120_000), max_size=6))
def test_any_cuts_give_the_same_bytes(cuts):
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setenv("NO_PROXY", "127.0.0.1")
        with contextlib.closing(FaultyServer()) as server:
            server.faults = [{"cut": cut} for cut in cuts]
            patience = Patience(attempts=9, connect=2.0, read=1.0, first_pause=0.001, longest_pause=0.002)
            assert fetch(source(server), Path(folder), patience, progress=False).read_bytes() == CONTENT
            assert server.body_bytes == len(CONTENT)


def test_content_range():
    texts = {"bytes 5-9/10": (5, 10), "bytes 5-9/*": (5, None), "items 5-9/10": (-1, None), "": (-1, None)}
    assert {text: _content_range(text) for text in texts} == texts


CHILD = """
    import sys
    from pathlib import Path
    from fedcopl_lab.data._download import Patience, fetch
    from fedcopl_lab.data._manifests import SourceFile
    url, size, sha256, folder = sys.argv[1:]
    file = SourceFile("big.bin", (url,), int(size), "", sha256, "", "")
    patience = Patience(attempts=3, connect=5.0, read=20.0, first_pause=0.01, longest_pause=0.05)
    fetch(file, Path(folder), patience, progress=False)
"""


@pytest.mark.long
@pytest.mark.skipif(os.name != "posix", reason="SIGKILL")
def test_200_megabytes_cut_five_times_and_killed_once(server, tmp_path):
    content = np.random.default_rng(1).bytes(200_000_000)
    sha256 = hashlib.sha256(content).hexdigest()
    server.files["big.bin"] = content
    part = 30_000_000
    server.faults = [{"cut": part}, {"cut": part}, {"cut": part}, {"stall": part}, {"cut": part}, {"cut": part}]
    arguments = [server.url + "big.bin", str(len(content)), sha256, str(tmp_path)]
    command = [sys.executable, "-c", textwrap.dedent(CHILD), *arguments]
    start = time.perf_counter()
    with subprocess.Popen(command) as child:
        assert server.stalled.wait(60)
        child.send_signal(signal.SIGKILL)
    server.go_on.set()
    assert child.returncode == -signal.SIGKILL
    left = (tmp_path / "big.bin.part").stat().st_size
    assert left > 3 * part
    subprocess.run(command, check=True, timeout=120)
    with open(tmp_path / "big.bin", "rb") as file:
        assert hashlib.file_digest(file, "sha256").hexdigest() == sha256
    assert server.faults == []
    assert server.body_bytes < 1.2 * len(content)
    print(f"\n{server.body_bytes / len(content):.4f} of the size in {time.perf_counter() - start:.1f} s, {left} kept")
