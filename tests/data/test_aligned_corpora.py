"""Europarl and Tatoeba: two files of aligned lines in an archive, streamed into pairs."""

import errno
import re
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from bytenet.config import load_recipe
from bytenet.data import corpora, download
from bytenet.data.config import PairsConfig
from bytenet.data.corpora import CORPORA, get
from bytenet.data.holding_out import hold_out
from tests.conftest import Run
from tests.data.public_server import PublicServer, tar_of, zip_of

RECIPE = Path(__file__).parents[2] / "recipes" / "en-de.toml"
PATHS = {"europarl": "/de-en.tgz", "tatoeba": "/de-en.txt.zip"}
each_set = pytest.mark.parametrize("name", PATHS)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[PublicServer]:
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(download, "PAUSES", ())
    with PublicServer().running() as server:
        for name in PATHS:
            publish(server, name, "One.\nTwo.\n", "Eins.\nZwei.\n")
        yield server


def publish(server: PublicServer, name: str, english: str, german: str) -> None:
    """Put an archive of these lines on the server."""
    server.files[PATHS[name]] = europarl(english, german) if name == "europarl" else tatoeba(english, german)


def europarl(english: str, german: str) -> bytes:
    return tar_of({"europarl-v7.de-en.de": german, "europarl-v7.de-en.en": english})


def tatoeba(english: str, german: str) -> bytes:
    return zip_of({"README": "Tatoeba", "Tatoeba.de-en.de": german, "Tatoeba.de-en.en": english, "LICENSE": "CC"})


@each_set
def test_lines_become_pairs(server: PublicServer, tmp_path: Path, name: str) -> None:
    english = "First.\nA\ttab\r.\n\nNo German\n \t\r\n Spaces \r\nNeither\u2028line\x85nor page\x0c.\n\u2028\nLast"
    german = "Eins.\nEin Tab.\nOhne Englisch\n\n \nLeer\traum\nWeder\u2028Zeile\x85noch Seite\x0c.\nWas?\nEnde\n"
    publish(server, name, english, german)
    (file,) = get(name, tmp_path, home=f"{server.home}/")
    assert file.read_bytes().decode().split("\n") == [
        "First.\tEins.",
        "A tab .\tEin Tab.",
        "Spaces\tLeer raum",
        "Neither\u2028line\x85nor page\x0c.\tWeder\u2028Zeile\x85noch Seite\x0c.",
        "Last\tEnde",
        "",
    ]
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(("name", "kept"), [("europarl", [0, 1, 2, 3, 4]), ("tatoeba", [0, 1, 3])])
def test_only_tatoebas_pairs_are_kept_once(server: PublicServer, tmp_path: Path, name: str, kept: list[int]) -> None:
    pairs = [("Hi.", "Hallo."), ("Go!", "Geh!"), ("Hi.", "Hallo. "), ("Hi.", "Tag."), ("Go!", "Geh!")]
    publish(server, name, *("".join(f"{pair[side]}\n" for pair in pairs) for side in (0, 1)))
    (file,) = get(name, tmp_path, home=server.home)
    assert file.read_text().splitlines() == ["\t".join(pairs[i]).rstrip() for i in kept]


def test_europarl_is_never_in_memory(tmp_path: Path) -> None:
    lines = "".join(f"{number} {'x' * 4000}\n" for number in range(1000))
    (tmp_path / "de-en.tgz").write_bytes(europarl(lines, lines))  # as if fetched
    (tmp_path / "new").mkdir()
    tracemalloc.start()
    try:
        corpora._build_europarl("http://127.0.0.1", tmp_path, tmp_path / "new")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (tmp_path / "new/train.tsv").stat().st_size == 2 * len(lines)
    assert peak < len(lines) / 4


@each_set
@pytest.mark.parametrize(
    ("english", "german", "message"),
    [
        ("One.\nTwo.\n", "Eins.\n", "English is longer"),
        ("One.\n", "Eins.\nZwei.\n", "German is longer"),
        ("\nTwo.\n", "Eins.\n\n", "0 pairs"),
        ("", "", "0 pairs"),
    ],
)
def test_lines_that_are_not_aligned(
    server: PublicServer, tmp_path: Path, name: str, english: str, german: str, message: str
) -> None:
    publish(server, name, english, german)
    with pytest.raises(ValueError, match=rf"^{server.home}: {name}: \w+.tsv: {message}; what was fetched is deleted$"):
        get(name, tmp_path, home=server.home)
    assert not list(tmp_path.iterdir())


def flipped(packed: bytes, place: int) -> bytes:
    return packed[:place] + bytes([packed[place] ^ 1]) + packed[place + 1 :]


@pytest.mark.parametrize(
    ("name", "spoil", "message"),
    [
        ("europarl", lambda packed: packed[:-20], "a damaged archive"),
        ("europarl", lambda packed: flipped(packed, len(packed) - 8), "a damaged archive .CRC check failed"),
        ("europarl", lambda _: b"<html>Moved</html>", "a damaged archive .Not a gzipped file"),
        ("europarl", lambda _: tar_of({"europarl-v7.de-en.en": "One."}), "no europarl-v7.de-en.de in de-en.tgz"),
        ("tatoeba", lambda packed: packed[:-30], "a damaged archive"),
        ("tatoeba", lambda packed: flipped(packed, packed.index(b"de-en.en") + 9), "a damaged archive"),
        ("tatoeba", lambda _: b"<html>Moved</html>", "a damaged archive .File is not a zip file"),
        ("tatoeba", lambda _: zip_of({"Tatoeba.de-en.de": "Eins."}), "no Tatoeba.de-en.en in de-en.txt.zip"),
        ("tatoeba", lambda _: zip_of({"Tatoeba.de-en.de": "", "Tatoeba.de-en.en": b"\xff"}), "not UTF-8 .byte 0xff"),
    ],
)
def test_what_is_damaged_is_refused_and_deleted(
    server: PublicServer, tmp_path: Path, name: str, spoil: Callable[[bytes], bytes], message: str
) -> None:
    server.files[PATHS[name]] = spoil(server.files[PATHS[name]])
    with pytest.raises(ValueError, match=f"^{server.home}: {name}: {message}"):
        get(name, tmp_path, home=server.home)
    assert not list(tmp_path.iterdir())


@each_set
def test_a_drop_costs_only_the_rest(server: PublicServer, tmp_path: Path, name: str) -> None:
    server.drops = [50]
    with pytest.raises(OSError, match="dropped at 50 of"):
        get(name, tmp_path, home=server.home)
    (file,) = get(name, tmp_path, home=server.home)
    assert get(name, tmp_path, home=server.home) == [file]  # there is nothing to ask for
    assert server.requests == [(PATHS[name], 0), (PATHS[name], 50)]
    assert file.read_text() == "One.\tEins.\nTwo.\tZwei.\n"


@each_set
@pytest.mark.parametrize(
    ("stop", "message"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "is full; with more room, the same command goes on"),
        (KeyboardInterrupt("by the user"), "by the user"),
    ],
    ids=["full disk", "Ctrl-C"],
)
def test_what_was_fetched_outlives_a_stop_while_writing(
    server: PublicServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    stop: BaseException,
    message: str,
) -> None:
    def stopped(sentence: str) -> str:
        raise stop

    with monkeypatch.context() as patch:
        patch.setattr(corpora, "_one_line", stopped)
        with pytest.raises(type(stop), match=message):
            get(name, tmp_path, home=server.home)
    left = [str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*") if file.is_file()]
    assert left == [f".partial/{name}{PATHS[name]}"]
    get(name, tmp_path, home=server.home)
    assert len(server.requests) == 1
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


def test_the_recipes_own_commands_put_its_files_in_place(
    server: PublicServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    for name in PATHS:
        publish(server, name, *("".join(f"{word} {n}\n" for n in range(2002)) for word in ("number", "Nummer")))
    sides = (f"dev/newstest2013-{side}.sgm" for side in ("src.en", "ref.de"))
    server.files["/dev.tgz"] = tar_of(dict.fromkeys(sides, '<seg id="1">2013</seg>'))
    newstest = replace(CORPORA["newstest"], build=partial(corpora._build_newstest, pairs={2013: 1}))
    monkeypatch.setitem(CORPORA, "newstest", newstest)
    monkeypatch.chdir(tmp_path)
    commands = re.findall(r"^# bytenet (data .*)$", RECIPE.read_text(), flags=re.MULTILINE)
    assert CORPORA["tatoeba"].then.removeprefix("bytenet ") in commands
    for command in commands:
        mirror = ["--home", server.home] if command.startswith("data get ") else []
        status, _, err = run(*command.split(), *mirror)
        assert status == 0, err
    data = load_recipe(RECIPE).data
    assert isinstance(data, PairsConfig)
    assert all(Path(file).exists() for file in data.train + data.validation)


def test_pairs_held_out_beside_a_set_are_left_alone(server: PublicServer, tmp_path: Path) -> None:
    (file,) = get("tatoeba", tmp_path, home=server.home)
    hold_out(file, file.parent, 1)
    held_out = (file.parent / "test.tsv").read_bytes()
    assert get("tatoeba", tmp_path, home=server.home) == [file]
    assert len(server.requests) == 1
    whole = file.read_bytes()
    file.write_bytes(whole[:-1])
    get("tatoeba", tmp_path, home=server.home)
    assert len(server.requests) == 2
    assert file.read_bytes() == whole
    assert (file.parent / "test.tsv").read_bytes() == held_out
