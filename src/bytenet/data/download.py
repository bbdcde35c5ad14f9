"""Files from public addresses: fetched with patience, kept only if they are whole.

What has arrived of a file is `NAME.part`, until all of it has. An interrupted fetch goes on where it stopped, if the
server can do that. Archives are read as streams, never extracted, so no name in them can reach outside a folder.
"""

import gzip
import hashlib
import json
import os
import sys
import tarfile
import time
import zipfile
import zlib
from collections.abc import Container, Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from http.client import BadStatusLine, HTTPException, HTTPResponse, IncompleteRead
from pathlib import Path, PurePosixPath
from typing import IO
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from bytenet import __version__

TIMEOUT = 60.0  # seconds without a byte
PAUSES = (1.0, 4.0, 15.0, 60.0)  # seconds before each new try; a try that brings new bytes starts the list again
CHUNK = 1 << 18
SOURCE = "source.json"
_PASSING_CODES = (408, 425, 429, 500, 502, 503, 504)  # HTTP: try again later


class DamagedError(ValueError):
    """What arrived is not what was asked for; to go on from it would be of no use."""


def fetch(address: str, file: Path) -> Path:
    """Bring the file at an address, or the rest of it; a file that is there already is not asked for."""
    if file.exists():
        return file
    if not address.startswith(("http://", "https://")):
        raise ValueError(f"{address}: not an address that begins with http:// or https://")
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(f"{file.name}.part")
    furthest, pauses = -1, iter(PAUSES)
    print(f"fetching {address}", file=sys.stderr)
    with _progress(file.name) as progress:
        while True:
            try:
                _fetch_rest(address, part, progress)
                return part.rename(file)
            except (OSError, HTTPException) as error:
                if not _is_passing(error):
                    raise _explained(error, address) from None
                # Only a new record counts: a server that cannot continue a file and always drops it would never end.
                if _size(part) > furthest:
                    furthest, pauses = _size(part), iter(PAUSES)
                pause = next(pauses, None)
                if pause is None:
                    raise OSError(f"{address}: {_reason(error)}; the same command goes on from there") from None
                print(f"{_reason(error)}; next try in {pause:g} s", file=sys.stderr)
                time.sleep(pause)


def _fetch_rest(address: str, part: Path, progress: Progress) -> None:
    """One request for what is missing."""
    size = _size(part)
    headers = {"User-Agent": f"bytenet/{__version__}"} | ({"Range": f"bytes={size}-"} if size else {})
    try:
        response = urlopen(Request(address, headers=headers), timeout=TIMEOUT)
    except HTTPError as error:
        with error:
            if error.code != 416 or not size:
                raise
            total = error.headers.get("Content-Range", "").rpartition("/")[2]
        if total != str(size):  # else nothing is missing: the last try ended between the last byte and the new name
            part.unlink()
            _fetch_rest(address, part, progress)
    else:
        with response:
            _receive(response, part, progress)


def _receive(response: HTTPResponse, part: Path, progress: Progress) -> None:
    """Write what comes: behind what is there, or instead of it if the server sends the file from its start."""
    size, total = _size(part), None
    place = response.headers.get("Content-Range", "").removeprefix("bytes").strip()
    continues = response.status == 206 and place.startswith(f"{size}-")
    if response.status == 206 and not continues:
        part.unlink(missing_ok=True)
        raise ConnectionError(f"the server sent bytes {place} and not from {size:,}")
    if not continues:
        size = 0
    if response.headers.get("Content-Length", "").isdecimal():
        total = size + int(response.headers["Content-Length"])
    bar = progress.task_ids[0]
    progress.reset(bar, completed=size, total=total)  # bytes of an earlier try are none of this one's speed
    with part.open("ab" if continues else "wb") as out:
        while chunk := response.read1(CHUNK):
            out.write(chunk)
            size += len(chunk)
            progress.advance(bar, len(chunk))
    if total is not None and size != total:
        raise ConnectionError(f"the connection dropped at {size:,} of {total:,} bytes")


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


@contextmanager
def _progress(name: str) -> Iterator[Progress]:
    """A bar on stderr: bytes, rate, time left; nothing where stderr is not a terminal."""
    console = Console(stderr=True)
    columns = (TextColumn(name), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        progress.add_task(name, total=None)
        yield progress


def _is_passing(error: OSError | HTTPException) -> bool:
    """Whether another try may help; it does not against a name that is unknown or a disk that is full."""
    if isinstance(error, HTTPError):
        return error.code in _PASSING_CODES
    cause = error.reason if isinstance(error, URLError) else error
    dropped = isinstance(cause, ConnectionError | TimeoutError | IncompleteRead | BadStatusLine)
    return dropped and not isinstance(cause, ConnectionRefusedError)


def _explained(error: OSError | HTTPException, address: str) -> Exception:
    if isinstance(error, OSError) and not isinstance(error, URLError | ConnectionError):
        return error  # of the disk, not of the network
    return OSError(f"{address}: {_reason(error)}")


def _reason(error: OSError | HTTPException) -> str:
    if isinstance(error, HTTPError):
        return f"the server answers {error.code} {error.reason}"
    if isinstance(error, URLError):
        return f"cannot be reached ({getattr(error.reason, 'strerror', None) or error.reason})"
    return str(error) or type(error).__name__


@contextmanager
def damage_named() -> Iterator[None]:
    """Every way in which an archive can be broken, as one kind of error."""
    try:
        yield
    except (zipfile.BadZipFile, tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise DamagedError(f"a damaged archive ({error})") from None
    except UnicodeDecodeError as error:
        raise DamagedError(f"not UTF-8 (byte 0x{error.object[error.start]:02x})") from None


@contextmanager
def open_in_zip(archive: Path, name: str) -> Iterator[IO[bytes]]:
    """One file of a zip archive, as a stream."""
    with zipfile.ZipFile(archive) as opened:
        for member in opened.namelist():
            _check_inside(member)
        if name not in opened.namelist():
            raise DamagedError(f"no {name} in {archive.name}")
        with opened.open(name) as stream:
            yield stream


def read_from_tar(archive: Path, wanted: Container[str]) -> dict[str, bytes]:
    """The wanted files of a .tgz archive, by name without folder."""
    return {name: stream.read() for name, stream in _files_in_tar(archive) if name in wanted}


@contextmanager
def open_in_tar(archive: Path, name: str) -> Iterator[IO[bytes]]:
    """One file of a .tgz archive, as a stream; what follows it is read too, to see that the archive is whole."""
    with closing(_files_in_tar(archive)) as files:
        stream = next((stream for found, stream in files if found == name), None)
        if stream is None:
            raise DamagedError(f"no {name} in {archive.name}")
        yield stream
        for _ in files:
            pass


def _files_in_tar(archive: Path) -> Generator[tuple[str, IO[bytes]], None, None]:
    """Each file by its name without folder; its stream ends when the next is asked for."""
    with gzip.open(archive) as unzipped:
        with tarfile.open(fileobj=unzipped, mode="r|") as opened:
            for member in opened:
                _check_inside(member.name)
                if member.isfile() and (stream := opened.extractfile(member)):
                    yield PurePosixPath(member.name).name, stream
        while unzipped.read(CHUNK):  # gzip's checksum is at the end, behind all that tar reads
            pass


def _check_inside(name: str) -> None:
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts:
        raise DamagedError(f"an archive that reaches outside its folder ({name})")


def split_stream(stream: IO[bytes], folder: Path, sizes: Mapping[str, int], md5: str) -> None:
    """Cut a stream of exactly known content into files of so many bytes."""
    digest = hashlib.md5(usedforsecurity=False)
    for name, size in sizes.items():
        missing = size
        with (folder / name).open("wb") as out:
            while chunk := stream.read(min(CHUNK, missing)):
                out.write(chunk)
                digest.update(chunk)
                missing -= len(chunk)
        if missing:
            raise DamagedError(f"ends {missing:,} bytes before the end of {name}")
    if stream.read(1):
        raise DamagedError(f"longer than {sum(sizes.values()):,} bytes")
    if digest.hexdigest() != md5:
        raise DamagedError(f"md5 {digest.hexdigest()} instead of {md5}")


def write_source(folder: Path, *, name: str, address: str, licence: str) -> None:
    """Say beside the files where they are from, and what they were when they were written."""
    files = {}
    for file in sorted(folder.iterdir()):
        with file.open("rb") as opened:
            files[file.name] = {
                "bytes": file.stat().st_size,
                "sha256": hashlib.file_digest(opened, "sha256").hexdigest(),
            }
            os.fsync(opened.fileno())
    content = {"name": name, "address": address, "licence": licence, "files": files}
    (folder / SOURCE).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def whole_files(folder: Path) -> list[Path]:
    """The files of a set that is there as it was written, judged by their sizes; none if anything is amiss."""
    try:
        files = json.loads((folder / SOURCE).read_bytes())["files"]
        whole = files and all((folder / name).stat().st_size == file["bytes"] for name, file in files.items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []
    return [folder / name for name in files] if whole else []


def publish(new: Path, folder: Path) -> None:
    """Move a finished set to its place; in a folder that is there, its files replace those of the same names."""
    if not folder.exists():
        new.rename(folder)
        return
    for file in sorted(new.iterdir(), key=lambda file: file.name == SOURCE):  # the one that vouches for all: last
        file.replace(folder / file.name)
