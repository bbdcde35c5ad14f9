"""Model folders: what was saved comes back to the bit, what was damaged is refused."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest
import torch

from bytenet import Bytes, Characters, LanguageModel, LanguageModelConfig, Translator, TranslatorConfig
from bytenet.decoding.config import DecodingConfig
from bytenet.model.blocks import StackConfig
from bytenet.model_folder import load_decoding_config, load_model, load_model_config, save_model
from bytenet.vocabulary import VocabularyConfig

STACK = StackConfig(num_blocks=2)
LETTERS = VocabularyConfig(kind="characters", symbols=3)


def make_language_model() -> LanguageModel:
    return LanguageModel(LanguageModelConfig(inner_channels=8, decoder=STACK))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A language model in several shards."""
    save_model(make_language_model(), [Bytes()], tmp_path / "model", shard_bytes=4000)
    return tmp_path / "model"


def test_a_language_model_comes_back_to_the_bit(tmp_path):
    model = make_language_model()
    save_model(model, [Bytes()], tmp_path / "model")
    assert sorted(file.name for file in (tmp_path / "model").iterdir()) == [
        "config.json",
        "model.safetensors",
        "vocabulary.json",
    ]
    loaded, vocabularies = load_model(tmp_path / "model")
    assert loaded.config == model.config
    assert vocabularies == (Bytes(),)
    assert not loaded.training
    assert loaded.state_dict().keys() == model.state_dict().keys()
    assert all(torch.equal(a, b) for a, b in zip(loaded.parameters(), model.parameters(), strict=True))


def test_a_translator_in_bf16_comes_back_to_the_bit(tmp_path):
    config = TranslatorConfig(source_vocabulary=LETTERS, inner_channels=8, encoder=STACK, decoder=STACK)
    model = Translator(config).bfloat16()
    save_model(model, [Characters("abc"), Bytes()], tmp_path / "model")
    loaded, vocabularies = load_model(tmp_path / "model")
    assert loaded.config == config
    assert vocabularies == (Characters("abc"), Bytes())
    assert all(torch.equal(a, b) for a, b in zip(loaded.parameters(), model.parameters(), strict=True))


def test_shards_have_the_usual_index(folder):
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    model, _ = load_model(folder)
    assert index["weight_map"].keys() == model.state_dict().keys()
    assert index["metadata"]["total_size"] == sum(tensor.nbytes for tensor in model.state_dict().values())
    assert len(set(index["weight_map"].values())) > 1
    assert all((folder / name).is_file() for name in index["weight_map"].values())


def test_a_folder_opens_wherever_it_stands(folder, tmp_path):
    moved = tmp_path / "elsewhere" / "another name"
    moved.parent.mkdir()
    shutil.move(folder, moved)
    load_model(moved)


FILES = ["config.json", "vocabulary.json", "model-00001-of-*.safetensors", "model.safetensors.index.json"]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", ["cut", "empty", "altered", "gone"])
def test_a_damaged_file_is_refused_with_its_name(folder, name, damage):
    (file,) = folder.glob(name)
    content = file.read_bytes()
    middle = len(content) // 2
    match damage:
        case "cut":
            file.write_bytes(content[:-10])
        case "empty":
            file.write_bytes(b"")
        case "altered":
            file.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
        case "gone":
            file.unlink()
    with pytest.raises(ValueError, match=file.name) as error:
        load_model(folder)
    assert "\n" not in str(error.value)


def test_a_config_changed_by_hand_is_refused(folder):
    """Other dilations fit the same weights; only the checksum can tell."""
    file = folder / "config.json"
    content = json.loads(file.read_text())
    content["model"]["decoder"]["dilations"] = [1, 3, 9]
    file.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"config.json: cut short or altered"):
        load_model_config(folder)


@pytest.mark.parametrize("known", [None, {}, {"split": 9}])
def test_a_folder_from_before_models_said_how_they_are_searched(folder, known):
    content = json.loads((folder / "config.json").read_text())
    del content["decoding"], content["checksum"]
    content |= {} if known is None else {"decoding": known}
    checksum = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    (folder / "config.json").write_text(json.dumps(content | {"checksum": checksum}))
    assert load_decoding_config(folder) == DecodingConfig(beam=12, length_penalty=0.0, **(known or {}))


def test_vocabularies_must_fit_the_model(tmp_path):
    with pytest.raises(ValueError, match="vocabularies of"):
        save_model(make_language_model(), [Characters("abc")], tmp_path / "model")
    assert not any(tmp_path.iterdir())


def test_saving_replaces_a_model_and_nothing_else(folder, tmp_path):
    other = make_language_model()
    save_model(other, [Bytes()], folder)
    loaded, _ = load_model(folder)
    assert all(torch.equal(a, b) for a, b in zip(loaded.parameters(), other.parameters(), strict=True))
    assert list(tmp_path.iterdir()) == [folder]

    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.txt").write_text("years of work")
    with pytest.raises(ValueError, match="not a model's folder"):
        save_model(other, [Bytes()], precious)
    assert (precious / "thesis.txt").read_text() == "years of work"
