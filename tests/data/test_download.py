import gzip
import io
import socket
import tarfile
import time
import zipfile
from collections.abc import Iterator
from hashlib import md5
from pathlib import Path

import pytest

from bytenet.data import download
from bytenet.data.download import DamagedError, fetch, open_in_tar, open_in_zip, read_from_tar, split_stream
from tests.data.public_server import PublicServer

CONTENT = bytes(range(256)) * 4096  # more than a chunk
HALF = len(CONTENT) // 2


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[PublicServer]:
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(download, "PAUSES", (0.0, 0.0))
    with PublicServer().running() as server:
        server.files["/file"] = CONTENT
        yield server


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "file"


def part(file: Path, content: bytes) -> Path:
    file.parent.mkdir(parents=True)
    part = file.with_name("file.part")
    part.write_bytes(content)
    return part


def test_whole(server: PublicServer, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert fetch(f"{server.home}/file", file) == file
    assert file.read_bytes() == CONTENT
    assert [entry.name for entry in file.parent.iterdir()] == ["file"]
    talk = capsys.readouterr()
    assert talk.out == ""
    assert f"fetching {server.home}/file" in talk.err


def test_there_already(server: PublicServer, file: Path) -> None:
    fetch(f"{server.home}/file", file)
    fetch(f"{server.home}/file", file)
    assert len(server.requests) == 1


def test_a_dropped_connection_costs_only_the_rest(server: PublicServer, file: Path) -> None:
    server.drops = [HALF, 1000]
    fetch(f"{server.home}/file", file)
    assert file.read_bytes() == CONTENT
    assert server.requests == [("/file", 0), ("/file", HALF), ("/file", HALF + 1000)]


def test_a_server_that_knows_no_ranges_starts_over(server: PublicServer, file: Path) -> None:
    server.knows_ranges = False
    server.drops = [HALF]
    fetch(f"{server.home}/file", file)
    assert file.read_bytes() == CONTENT
    assert server.requests == [("/file", 0), ("/file", 0)]


def test_a_server_that_knows_no_ranges_and_always_drops_is_given_up(server: PublicServer, file: Path) -> None:
    server.knows_ranges = False
    server.drops = [HALF] * 100
    with pytest.raises(OSError, match=rf"{server.home}/file: the connection dropped at {HALF:,} of {len(CONTENT):,}"):
        fetch(f"{server.home}/file", file)
    assert len(server.requests) == 1 + len(download.PAUSES)


def test_progress_renews_patience(server: PublicServer, file: Path) -> None:
    server.drops = [1000] * 20
    fetch(f"{server.home}/file", file)
    assert file.read_bytes() == CONTENT
    assert len(server.requests) == 21


def test_pauses_grow(server: PublicServer, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(download, "PAUSES", (1.0, 4.0))
    monkeypatch.setattr(time, "sleep", pauses.append)
    server.codes = [503] * 9
    with pytest.raises(OSError, match="503 Service Unavailable"):
        fetch(f"{server.home}/file", file)
    assert pauses == [1.0, 4.0]


def test_a_range_from_elsewhere_is_not_used(server: PublicServer, file: Path) -> None:
    part(file, CONTENT[:HALF])
    server.shift = 10
    fetch(f"{server.home}/file", file)
    assert file.read_bytes() == CONTENT


@pytest.mark.parametrize(("there", "requests"), [(CONTENT, 1), (CONTENT + b"more", 2)])
def test_a_part_that_is_whole_or_too_long(server: PublicServer, file: Path, there: bytes, requests: int) -> None:
    part(file, there)
    fetch(f"{server.home}/file", file)
    assert file.read_bytes() == CONTENT
    assert len(server.requests) == requests


def test_interrupted_then_continued(server: PublicServer, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(download.Progress, "advance", interrupt)
        with pytest.raises(KeyboardInterrupt):
            fetch(f"{server.home}/file", file)
    size = file.with_name("file.part").stat().st_size
    assert 0 < size < len(CONTENT)
    assert not file.exists()
    fetch(f"{server.home}/file", file)
    assert file.read_bytes() == CONTENT
    assert server.requests[1:] == [("/file", size)]


def test_not_found(server: PublicServer, file: Path) -> None:
    with pytest.raises(OSError, match=f"^{server.home}/absent: the server answers 404 Not Found$"):
        fetch(f"{server.home}/absent", file)
    assert len(server.requests) == 1


def test_no_server(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    with socket.socket() as taken:  # bound and not listening: whoever calls is refused
        taken.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{taken.getsockname()[1]}/file"
        with pytest.raises(OSError, match=rf"^{address}: cannot be reached \(Connection refused\)$"):
            fetch(address, file)


def test_no_network(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(OSError, match=r"^http://absent.invalid/file: cannot be reached \(Name or service not known\)$"):
        fetch("http://absent.invalid/file", file)


def test_not_an_address(file: Path) -> None:
    with pytest.raises(ValueError, match="file:///etc/passwd: not an address"):
        fetch("file:///etc/passwd", file)


def zip_of(folder: Path, names: list[str]) -> Path:
    archive = folder / "archive.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as opened:
        for name in names:
            opened.writestr(name, CONTENT)
    return archive


def tar_of(folder: Path, names: list[str]) -> Path:
    archive = folder / "archive.tgz"
    with tarfile.open(archive, "w:gz") as opened:
        for name in names:
            member = tarfile.TarInfo(name)
            member.size = len(CONTENT)
            opened.addfile(member, io.BytesIO(CONTENT))
    return archive


def test_archives(tmp_path: Path) -> None:
    assert read_from_tar(tar_of(tmp_path, ["dev/a", "dev/b"]), {"b"}) == {"b": CONTENT}
    with open_in_zip(zip_of(tmp_path, ["a", "b"]), "b") as stream:
        assert stream.read() == CONTENT
    with open_in_tar(tar_of(tmp_path, ["dev/a", "dev/b", "dev/c"]), "b") as stream:
        assert stream.read() == CONTENT
    with pytest.raises(DamagedError, match=r"no d in archive\.tgz"), open_in_tar(tmp_path / "archive.tgz", "d"):
        pass


def test_a_link_in_an_archive_is_not_followed(tmp_path: Path) -> None:
    archive = tmp_path / "archive.tgz"
    with tarfile.open(archive, "w:gz") as opened:
        member = tarfile.TarInfo("wanted")
        member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
        opened.addfile(member)
    assert read_from_tar(archive, {"wanted"}) == {}


@pytest.mark.parametrize("name", ["../evil", "/evil", "dev/../../evil", "..\\evil"])
def test_an_archive_that_reaches_outside_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(DamagedError, match="reaches outside"):
        read_from_tar(tar_of(tmp_path, ["wanted", name]), {"wanted"})
    with pytest.raises(DamagedError, match="reaches outside"), open_in_tar(tmp_path / "archive.tgz", "wanted"):
        pass
    with (
        pytest.raises(DamagedError, match="reaches outside"),
        open_in_zip(zip_of(tmp_path, ["wanted", name]), "wanted"),
    ):
        pass


def test_damage_behind_the_last_member_is_seen(tmp_path: Path) -> None:
    archive = tar_of(tmp_path, ["wanted"])
    content = bytearray(archive.read_bytes())
    content[-8] ^= 1  # gzip's checksum
    archive.write_bytes(content)
    with pytest.raises(gzip.BadGzipFile):
        read_from_tar(archive, {"wanted"})
    with pytest.raises(gzip.BadGzipFile), open_in_tar(archive, "wanted"):
        pass


def test_split(tmp_path: Path) -> None:
    sizes = {"first": len(CONTENT) - 5, "second": 5}
    split_stream(io.BytesIO(CONTENT), tmp_path, sizes, md5(CONTENT).hexdigest())
    assert (tmp_path / "first").read_bytes() == CONTENT[:-5]
    assert (tmp_path / "second").read_bytes() == CONTENT[-5:]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (CONTENT[:-1], "ends 1 bytes before the end of second"),
        (CONTENT + b"x", f"longer than {len(CONTENT):,} bytes"),
        (b"x" + CONTENT[1:], f"md5 {md5(b'x' + CONTENT[1:]).hexdigest()} instead of {md5(CONTENT).hexdigest()}"),
    ],
)
def test_a_stream_of_other_content_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    sizes = {"first": len(CONTENT) - 5, "second": 5}
    with pytest.raises(DamagedError, match=message):
        split_stream(io.BytesIO(content), tmp_path, sizes, md5(CONTENT).hexdigest())
