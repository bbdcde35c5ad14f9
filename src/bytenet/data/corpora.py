"""The public sets that the experiments of the paper and of this package stand on, fetched from their homes.

    enwik8/{train,validation,test}.txt            bytes
    multi30k/{train,validation,test2016}.tsv      one pair a line: English, tab, German
    newstest/{2008,...,2015}.tsv
    wmt14-en-de/train.tsv
    europarl/train.tsv
    tatoeba/all.tsv                               `bytenet data hold-out` makes train.tsv and test.tsv of it

Beside the files of each, `source.json` says where they are from. A set appears whole or not at all.

The figures in docs/results.md are from 1,754,649 pairs of Europarl and 170,092 of Tatoeba; what the addresses of those
two have may be more.
"""

import difflib
import errno
import html
import importlib.util
import itertools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from bytenet.data import download
from bytenet.data.download import DamagedError
from bytenet.data.reading import open_binary

PARTIAL = ".partial"
Pairs = Iterable[tuple[str, str]]


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """A set that can be had by its name."""

    name: str
    description: str
    licence: str
    home: str
    """The address of the folder that its files are fetched from."""
    build: Callable[[str, Path, Path], None]
    """(home, folder for downloads, folder to write the set to)"""
    then: str = ""
    """The command to run on it next, where recipes count on that; in the folder that is the default."""


def get(name: str, out: Path, *, home: str | None = None) -> list[Path]:
    """Fetch a set into `out/name`; return its files. One that is there whole is not fetched again.

    `home` is the address of a mirror. What an interrupted fetch leaves in `out/.partial` is used by the next.
    """
    if name not in CORPORA:
        nearest = difflib.get_close_matches(name, CORPORA, n=1, cutoff=0.0)[0]
        raise ValueError(f"{name}: no such corpus (did you mean {nearest}? see bytenet data list)")
    corpus, folder, partial = CORPORA[name], out / name, out / PARTIAL / name
    if files := download.whole_files(folder):
        return files
    if folder.exists() and not (folder / download.SOURCE).exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"{folder}: exists and is not from bytenet data get; it is left as it is")
    address = (home or corpus.home).rstrip("/")
    new = partial / "new"
    try:
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(parents=True)
        with download.damage_named():
            corpus.build(address, partial, new)
        download.write_source(new, name=name, address=address, licence=corpus.licence)
        download.publish(new, folder)
    except DamagedError as error:
        shutil.rmtree(partial)
        raise ValueError(f"{address}: {name}: {error}; what was fetched is deleted") from None
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise OSError(f"{address}: the disk of {out} is full; with more room, the same command goes on") from None
    else:
        shutil.rmtree(partial)
    finally:
        shutil.rmtree(new, ignore_errors=True)
        for left in (partial, partial.parent):
            with suppress(OSError):  # gone, or with something in it that the next try needs
                left.rmdir()
    return download.whole_files(folder)


ENWIK8_MD5 = "a1fa5ffddb56f4953e226637dabbb36a"
ENWIK8_SIZES = {"train.txt": 90_000_000, "validation.txt": 5_000_000, "test.txt": 5_000_000}


def _build_enwik8(
    home: str, downloads: Path, folder: Path, *, sizes: Mapping[str, int] = ENWIK8_SIZES, md5: str = ENWIK8_MD5
) -> None:
    archive = download.fetch(f"{home}/enwik8.zip", downloads / "enwik8.zip")
    with download.open_in_zip(archive, "enwik8") as stream:
        download.split_stream(stream, folder, sizes, md5)


MULTI30K_PAIRS = {"train": ("train", 29_000), "validation": ("val", 1_014), "test2016": ("test_2016_flickr", 1_000)}


def _build_multi30k(
    home: str, downloads: Path, folder: Path, *, pairs: Mapping[str, tuple[str, int]] = MULTI30K_PAIRS
) -> None:
    for name, (original, count) in pairs.items():
        files = [f"{original}.{language}.gz" for language in ("en", "de")]
        english, german = (_lines([download.fetch(f"{home}/{file}", downloads / file)]) for file in files)
        _write_pairs(folder / f"{name}.tsv", english, german, count=count)


NEWSTEST_PAIRS = {2008: 2051, 2009: 2525, 2010: 2489, 2011: 3003, 2012: 3003, 2013: 3000, 2014: 3003, 2015: 2169}
_NEWSTEST_STEMS = {2008: "news-test2008", 2014: "newstest2014-deen", 2015: "newstest2015-ende"}


def _build_newstest(home: str, downloads: Path, folder: Path, *, pairs: Mapping[int, int] = NEWSTEST_PAIRS) -> None:
    archive = download.fetch(f"{home}/dev.tgz", downloads / "dev.tgz")
    stems = {year: _NEWSTEST_STEMS.get(year, f"newstest{year}") for year in pairs}
    names = {year: (f"{stem}-src.en.sgm", f"{stem}-ref.de.sgm") for year, stem in stems.items()}
    found = download.read_from_tar(archive, set(itertools.chain(*names.values())))
    for year, sides in names.items():
        for name in sides:
            if name not in found:
                raise DamagedError(f"no {name} in {archive.name}")
        english, german = (_segments(found[name].decode("utf-8-sig")) for name in sides)
        _write_pairs(folder / f"{year}.tsv", english, german, count=pairs[year])


def _segments(sgm: str) -> Iterator[str]:
    """The sentences of an .sgm file, which looks like XML but cannot be relied on to be it."""
    for segment in re.findall(r"<seg\b[^>]*>(.*?)</seg>", sgm, re.DOTALL | re.IGNORECASE):
        # Without the semicolon, HTML's rules would also take the beginning of `&copying` for a sign.
        yield re.sub(r"&#?\w+;", lambda entity: html.unescape(entity[0]), segment)


WMT14_HOME = "https://www.statmt.org/wmt14"
# mtdata has News Commentary 9 only as OPUS publishes it; the other two are WMT's own archives.
WMT14_PARTS = (
    "Statmt-europarl_wmt13-7-deu-eng",
    "Statmt-commoncrawl_wmt13-1-deu-eng",
    "OPUS-news_commentary-v9.1-deu-eng",
)


def _build_wmt14(home: str, downloads: Path, folder: Path) -> None:
    if home != WMT14_HOME:
        raise ValueError(f"{home}: wmt14-en-de comes through mtdata, from the addresses that mtdata knows")
    if importlib.util.find_spec("mtdata") is None:
        raise ValueError('wmt14-en-de comes through mtdata, which is not installed: pip install "bytenet[corpora]"')
    command = ["mtdata", "get", "-l", "eng-deu", "--train", *WMT14_PARTS, "--fail", "--out", str(downloads)]
    environment = {"MTDATA": str(downloads / "cache")} | os.environ  # gigabytes: here, not under the user's home
    # 2: mtdata's talk goes to stderr, all of it
    status = subprocess.run([sys.executable, "-m", *command], env=environment, stdout=2, check=False).returncode
    if status:
        raise OSError(f"wmt14-en-de: mtdata failed with exit code {status}; the lines above say why")
    parts = downloads / "train-parts"
    english, german = (_lines([parts / f"{part}.{side}" for part in WMT14_PARTS]) for side in ("eng", "deu"))
    _write_pairs(folder / "train.tsv", english, german)


def _build_europarl(home: str, downloads: Path, folder: Path) -> None:
    archive = download.fetch(f"{home}/de-en.tgz", downloads / "de-en.tgz")
    with (
        download.open_in_tar(archive, "europarl-v7.de-en.en") as english,
        download.open_in_tar(archive, "europarl-v7.de-en.de") as german,
    ):
        _write_pairs(folder / "train.tsv", _decoded(english), _decoded(german), choose=_without_gaps)


def _build_tatoeba(home: str, downloads: Path, folder: Path) -> None:
    archive = download.fetch(f"{home}/de-en.txt.zip", downloads / "de-en.txt.zip")
    with (
        download.open_in_zip(archive, "Tatoeba.de-en.en") as english,
        download.open_in_zip(archive, "Tatoeba.de-en.de") as german,
    ):
        _write_pairs(folder / "all.tsv", _decoded(english), _decoded(german), choose=_each_once)


def _lines(files: Iterable[Path]) -> Iterator[str]:
    """The lines of files, plain or packed, one file after the other."""
    for file in files:
        with open_binary(file) as opened:
            yield from _decoded(opened)


def _decoded(stream: IO[bytes]) -> Iterator[str]:
    # Bytes, as only \n ends a line of them: a \r inside one would put all that follows beside the wrong sentence.
    return (line.decode("utf-8") for line in stream)


def _write_pairs(
    file: Path,
    english: Iterable[str],
    german: Iterable[str],
    *,
    count: int | None = None,
    choose: Callable[[Pairs], Pairs] = iter,
) -> None:
    """Write sentences side by side, those chosen; `count` is how many there must be, where that is known."""
    written = 0
    with file.open("w", encoding="utf-8", newline="\n") as out:
        for source, target in choose(_side_by_side(english, german, file.name)):
            out.write(f"{source}\t{target}\n")
            written += 1
    if written != (count or written) or not written:
        raise DamagedError(f"{file.name}: {written:,} pairs" + (f" instead of {count:,}" if count else ""))


def _side_by_side(english: Iterable[str], german: Iterable[str], name: str) -> Pairs:
    for source, target in itertools.zip_longest(english, german):
        if source is None or target is None:
            raise DamagedError(f"{name}: {'German' if source is None else 'English'} is longer")
        yield _one_line(source), _one_line(target)


def _without_gaps(pairs: Pairs) -> Pairs:
    """The pairs that have something on both sides."""
    return (pair for pair in pairs if all(side.strip() for side in pair))


def _each_once(pairs: Pairs) -> Pairs:
    """Without gaps, and in memory: not for sets of millions."""
    return dict.fromkeys(_without_gaps(pairs))


def _one_line(sentence: str) -> str:
    """Tabs and ends of lines would cut the sentence in a .tsv file, spaces around it mean nothing; all else stays."""
    return re.sub(r"[\t\r\n]+", " ", sentence).strip(" ")


CORPORA: dict[str, Corpus] = {
    corpus.name: corpus
    for corpus in (
        Corpus(
            name="enwik8",
            description="Wikipedia's first 100,000,000 bytes of 2006, cut 90 / 5 / 5 million: language model",
            licence="GFDL and CC BY-SA",
            home="http://mattmahoney.net/dc",
            build=_build_enwik8,
        ),
        Corpus(
            name="multi30k",
            description="English-German image captions, 29,000 / 1,014 / 1,000 pairs (task 1, raw, test 2016)",
            licence="non-commercial research",
            home="https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw",
            build=_build_multi30k,
        ),
        Corpus(
            name="newstest",
            description="English-German WMT news tests 2008-2015; 2013 validates, 2014 and 2015 test, as in the paper",
            licence="WMT, research use",
            home="http://data.statmt.org/wmt16/translation-task",
            build=_build_newstest,
        ),
        Corpus(
            name="wmt14-en-de",
            description="English-German Europarl 7, Common Crawl, News Commentary 9: 4.5 million pairs (needs mtdata)",
            licence="Europarl: re-use with acknowledgement; the others: research use, as WMT releases them",
            home=WMT14_HOME,
            build=_build_wmt14,
        ),
        Corpus(
            name="europarl",
            description="English-German speeches of the European Parliament, version 7: about 1.9 million pairs",
            licence="re-use with acknowledgement",
            home="https://www.statmt.org/europarl/v7",
            build=_build_europarl,
        ),
        Corpus(
            name="tatoeba",
            description="English-German everyday sentences, all in one file: a test set is yet to be held out",
            licence="CC BY 2.0 FR",
            home="https://object.pouta.csc.fi/OPUS-Tatoeba/v2023-04-12/moses",
            build=_build_tatoeba,
            then="bytenet data hold-out data/tatoeba/all.tsv --out data/tatoeba/choosing",
        ),
    )
}
