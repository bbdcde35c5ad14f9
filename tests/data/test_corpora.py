import errno
import gzip
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from hashlib import md5, sha256
from pathlib import Path
from typing import IO

import pytest

from bytenet.data import corpora, download
from bytenet.data.corpora import CORPORA, get
from tests.data.public_server import PublicServer, tar_of, zip_of

TEXT = bytes(range(256)) * 40
SIZES = {"train.txt": len(TEXT) - 10, "validation.txt": 5, "test.txt": 5}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[PublicServer]:
    """With small editions of the sets."""
    small: dict[str, Callable[[str, Path, Path], None]] = {
        "enwik8": partial(corpora._build_enwik8, sizes=SIZES, md5=md5(TEXT).hexdigest()),
        "multi30k": partial(corpora._build_multi30k, pairs={"train": ("train", 2), "validation": ("val", 1)}),
        "newstest": partial(corpora._build_newstest, pairs={2008: 1, 2013: 1, 2014: 2, 2015: 1}),
    }
    for name, build in small.items():
        monkeypatch.setitem(CORPORA, name, replace(CORPORA[name], build=build))
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(download, "PAUSES", ())
    with PublicServer().running() as server:
        server.files["/enwik8.zip"] = zip_of({"enwik8": TEXT})
        yield server


def sgm(*segments: str) -> str:
    lines = (f'<seg id="{number}">{segment}</seg>' for number, segment in enumerate(segments, start=1))
    return f'<srcset setid="x" srclang="any"><doc docid="d">\n<hl>\n<p>\n{chr(10).join(lines)}\n</p>\n</doc></srcset>'


def test_every_set_says_what_it_is() -> None:
    for name, corpus in CORPORA.items():
        assert corpus.name == name
        assert corpus.description
        assert corpus.licence
        assert corpus.home.startswith("http")


def test_enwik8(server: PublicServer, tmp_path: Path) -> None:
    files = get("enwik8", tmp_path, home=f"{server.home}/")
    assert sorted(files) == sorted(tmp_path / "enwik8" / name for name in SIZES)
    assert (tmp_path / "enwik8/train.txt").read_bytes() == TEXT[:-10]
    assert (tmp_path / "enwik8/validation.txt").read_bytes() == TEXT[-10:-5]
    assert (tmp_path / "enwik8/test.txt").read_bytes() == TEXT[-5:]
    assert [entry.name for entry in tmp_path.iterdir()] == ["enwik8"]


def test_the_real_enwik8_is_cut_as_in_the_paper() -> None:
    assert corpora.ENWIK8_SIZES == {"train.txt": 90_000_000, "validation.txt": 5_000_000, "test.txt": 5_000_000}


def test_source(server: PublicServer, tmp_path: Path) -> None:
    get("enwik8", tmp_path, home=server.home)
    source = json.loads((tmp_path / "enwik8/source.json").read_text())
    assert (source["name"], source["address"]) == ("enwik8", server.home)
    assert source["licence"] == CORPORA["enwik8"].licence
    assert source["files"]["train.txt"] == {"bytes": len(TEXT) - 10, "sha256": sha256(TEXT[:-10]).hexdigest()}
    assert source["files"].keys() == SIZES.keys()


def test_what_is_there_whole_is_not_fetched_again(server: PublicServer, tmp_path: Path) -> None:
    first = get("enwik8", tmp_path, home=server.home)
    assert get("enwik8", tmp_path, home=server.home) == first
    assert len(server.requests) == 1


@pytest.mark.parametrize("damage", ["cut", "missing", "source"])
def test_what_is_there_but_not_whole_is_fetched_again(server: PublicServer, tmp_path: Path, damage: str) -> None:
    get("enwik8", tmp_path, home=server.home)
    folder = tmp_path / "enwik8"
    (folder / "mine").write_text("a file of the user's own")
    match damage:
        case "cut":
            (folder / "test.txt").write_bytes(TEXT[-5:-1])
        case "missing":
            (folder / "test.txt").unlink()
        case "source":
            (folder / "source.json").write_text("{")
    get("enwik8", tmp_path, home=server.home)
    assert (folder / "test.txt").read_bytes() == TEXT[-5:]
    assert (folder / "mine").exists()
    assert len(server.requests) == 2
    assert len(get("enwik8", tmp_path, home=server.home)) == 3
    assert len(server.requests) == 2


def test_a_folder_of_someone_elses_is_left(server: PublicServer, tmp_path: Path) -> None:
    (tmp_path / "enwik8").mkdir()
    (tmp_path / "enwik8/train.txt").write_text("mine")
    with pytest.raises(ValueError, match="exists and is not from bytenet data get"):
        get("enwik8", tmp_path, home=server.home)
    assert (tmp_path / "enwik8/train.txt").read_text() == "mine"
    assert not server.requests


def test_a_wrong_checksum_is_refused_and_the_download_deleted(server: PublicServer, tmp_path: Path) -> None:
    wrong = b"x" + TEXT[1:]
    server.files["/enwik8.zip"] = zip_of({"enwik8": wrong})
    with pytest.raises(ValueError, match=f"md5 {md5(wrong).hexdigest()} instead of {md5(TEXT).hexdigest()}") as caught:
        get("enwik8", tmp_path, home=server.home)
    assert server.home in str(caught.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "content",
    [b"<html>Log in to the hotel's network</html>", zip_of({"enwik8": TEXT})[:-30], b""],
    ids=["page", "cut", "empty"],
)
def test_what_is_no_archive_is_refused_and_deleted(server: PublicServer, tmp_path: Path, content: bytes) -> None:
    server.files["/enwik8.zip"] = content
    with pytest.raises(ValueError, match=r"enwik8: a damaged archive \(File is not a zip file\)"):
        get("enwik8", tmp_path, home=server.home)
    assert not list(tmp_path.iterdir())


def test_a_drop_leaves_the_part_for_the_next_time(server: PublicServer, tmp_path: Path) -> None:
    server.drops = [100]
    with pytest.raises(OSError, match="dropped at 100 of"):
        get("enwik8", tmp_path, home=server.home)
    assert [entry.name for entry in tmp_path.iterdir()] == [".partial"]
    get("enwik8", tmp_path, home=server.home)
    assert server.requests == [("/enwik8.zip", 0), ("/enwik8.zip", 100)]
    assert [entry.name for entry in tmp_path.iterdir()] == ["enwik8"]


def test_a_full_disk(server: PublicServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(stream: IO[bytes], folder: Path, *_: object) -> None:
        (folder / "train.txt").write_bytes(b"so far")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(download, "split_stream", full)
    with pytest.raises(OSError, match=f"^{server.home}: the disk of {tmp_path} is full"):
        get("enwik8", tmp_path, home=server.home)
    assert [str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*") if file.is_file()] == [
        ".partial/enwik8/enwik8.zip"
    ]


def test_an_unknown_name() -> None:
    with pytest.raises(ValueError, match=r"^enwiki8: no such corpus \(did you mean enwik8\? see bytenet data list\)$"):
        get("enwiki8", Path("nowhere"))


def multi30k(server: PublicServer, **files: str) -> None:
    there = {"train_en": "A\rdog.\nTwo\tcats\r\n", "train_de": "Ein Hund.\nZwei\x85 Katzen \n", "val_en": "Yes.\n"}
    for name, content in (there | {"val_de": "Ja."} | files).items():
        server.files[f"/{name.replace('_', '.')}.gz"] = gzip.compress(content.encode())


def test_multi30k(server: PublicServer, tmp_path: Path) -> None:
    multi30k(server)
    get("multi30k", tmp_path, home=server.home)
    assert (tmp_path / "multi30k/train.tsv").read_bytes().decode() == "A dog.\tEin Hund.\nTwo cats\tZwei\x85 Katzen\n"
    assert (tmp_path / "multi30k/validation.tsv").read_text(encoding="utf-8") == "Yes.\tJa.\n"


def test_the_files_that_were_whole_are_not_fetched_again(server: PublicServer, tmp_path: Path) -> None:
    multi30k(server)
    whole = server.files.pop("/val.de.gz")
    with pytest.raises(OSError, match=r"val.de.gz: the server answers 404"):
        get("multi30k", tmp_path, home=server.home)
    assert not (tmp_path / "multi30k").exists()
    server.files["/val.de.gz"] = whole
    server.requests.clear()
    get("multi30k", tmp_path, home=server.home)
    assert server.requests == [("/val.de.gz", 0)]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"train_de": "Eins.\n"}, "train.tsv: English is longer"),
        ({"val_de": "Ja.\nNein.\n"}, "validation.tsv: German is longer"),
        ({"val_en": "Yes.\nNo.\n", "val_de": "Ja.\nNein.\n"}, "validation.tsv: 2 pairs instead of 1"),
    ],
)
def test_pairs_must_be_as_many_as_are_known(
    server: PublicServer, tmp_path: Path, files: dict[str, str], message: str
) -> None:
    multi30k(server, **files)
    with pytest.raises(ValueError, match=message):
        get("multi30k", tmp_path, home=server.home)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("packed", "message"),
    [(gzip.compress(b"Ja.")[:-4], "a damaged archive"), (gzip.compress(b"J\xff."), r"not UTF-8 \(byte 0xff\)")],
    ids=["cut", "not UTF-8"],  # gzip writes the time down, and names must be the same in every process
)
def test_a_broken_side(server: PublicServer, tmp_path: Path, packed: bytes, message: str) -> None:
    multi30k(server)
    server.files["/val.de.gz"] = packed
    with pytest.raises(ValueError, match=message):
        get("multi30k", tmp_path, home=server.home)


def newstest_files() -> dict[str, str]:
    names = ("news-test2008", "newstest2013", "newstest2014-deen", "newstest2015-ende")
    files = {f"dev/{name}-src.en.sgm": sgm(f" {name} ") for name in names}
    files |= {f"dev/{name}-ref.de.sgm": sgm(f"{name} auf Deutsch") for name in names}
    files["dev/newstest2014-deen-src.en.sgm"] = sgm(
        "R&amp;D &lt;b&gt; &#39;x&#x27; AT&T &copying", "two\tcells\nor lines"
    )
    files["dev/newstest2014-deen-ref.de.sgm"] = "\ufeff" + sgm("F&amp;E", "zwei").replace("seg", "SEG")
    return files | {"dev/newstest2014-deen-src.de.sgm": sgm("the other direction")}


def test_newstest(server: PublicServer, tmp_path: Path) -> None:
    server.files["/dev.tgz"] = tar_of(newstest_files())
    files = get("newstest", tmp_path, home=server.home)
    assert [file.name for file in files] == ["2008.tsv", "2013.tsv", "2014.tsv", "2015.tsv"]
    assert files[0].read_text(encoding="utf-8") == "news-test2008\tnews-test2008 auf Deutsch\n"
    pairs = "R&D <b> 'x' AT&T &copying\tF&E\ntwo cells or lines\tzwei\n"
    assert files[2].read_text(encoding="utf-8") == pairs


def test_newstest_without_a_year(server: PublicServer, tmp_path: Path) -> None:
    files = newstest_files()
    del files["dev/newstest2013-ref.de.sgm"]
    server.files["/dev.tgz"] = tar_of(files)
    with pytest.raises(ValueError, match=r"newstest: no newstest2013-ref.de.sgm in dev.tgz"):
        get("newstest", tmp_path, home=server.home)


def test_an_archive_that_reaches_outside(server: PublicServer, tmp_path: Path) -> None:
    server.files["/dev.tgz"] = tar_of(newstest_files() | {"../../evil": "x"})
    with pytest.raises(ValueError, match=r"reaches outside its folder \(../../evil\)"):
        get("newstest", tmp_path / "out", home=server.home)
    assert not list(tmp_path.rglob("evil"))


MTDATA = """
import json, os, pathlib, sys
out = pathlib.Path(sys.argv[sys.argv.index("--out") + 1])
parts = out / "train-parts"
parts.mkdir(exist_ok=True)
(out.parent.parent / "called.json").write_text(json.dumps([sys.argv[1:], os.environ["MTDATA"]]))
print("much talk")
for part in sys.argv[sys.argv.index("--train") + 1 : sys.argv.index("--fail")]:
    for language in ("eng", "deu"):
        (parts / f"{part}.{language}").write_text(f"{part} {language} 1\\n{part} {language} 2\\n")
sys.exit(STATUS)
"""


def install_mtdata(folder: Path, monkeypatch: pytest.MonkeyPatch, status: int = 0) -> None:
    """A package of the same name that needs no network."""
    (folder / "packages/mtdata").mkdir(parents=True)
    (folder / "packages/mtdata/__init__.py").touch()
    (folder / "packages/mtdata/__main__.py").write_text(MTDATA.replace("STATUS", str(status)))
    monkeypatch.syspath_prepend(folder / "packages")
    monkeypatch.delitem(sys.modules, "mtdata", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(folder / "packages"))
    monkeypatch.delenv("MTDATA", raising=False)


def test_wmt14(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    install_mtdata(tmp_path, monkeypatch)
    (file,) = get("wmt14-en-de", tmp_path / "out")
    arguments, cache = json.loads((tmp_path / "out/called.json").read_text())
    assert arguments[:4] == ["get", "-l", "eng-deu", "--train"]
    assert Path(cache).is_relative_to(tmp_path / "out/.partial")
    lines = [line.split("\t") for line in file.read_text().splitlines()]
    assert len(lines) == 6
    assert lines[0] == [f"{corpora.WMT14_PARTS[0]} eng 1", f"{corpora.WMT14_PARTS[0]} deu 1"]
    assert [english.replace("eng", "deu") for english, _ in lines] == [
        german.replace("eng", "deu") for _, german in lines
    ]
    assert not (tmp_path / "out/.partial").exists()
    talk = capfd.readouterr()
    assert talk.out == ""
    assert "much talk" in talk.err


def test_mtdata_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_mtdata(tmp_path, monkeypatch, status=3)
    with pytest.raises(OSError, match="mtdata failed with exit code 3"):
        get("wmt14-en-de", tmp_path / "out")
    assert not (tmp_path / "out/wmt14-en-de").exists()
    assert (tmp_path / "out/.partial/wmt14-en-de/train-parts").exists()  # mtdata itself goes on from these


def test_missing_mtdata(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mtdata", None)
    with pytest.raises(ValueError, match=r'not installed: pip install "bytenet\[corpora\]"$'):
        get("wmt14-en-de", tmp_path)
    assert not list(tmp_path.iterdir())


def test_mtdata_has_no_mirror(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="comes through mtdata, from the addresses that mtdata knows"):
        get("wmt14-en-de", tmp_path, home="http://127.0.0.1")
