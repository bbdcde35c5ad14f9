"""Stored weights: int8 is half a step away at most, once and for all; what was damaged is refused."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from bytenet import Bytes, Characters, LanguageModelConfig, Pipeline, load, load_model, save_model
from bytenet.model import Model, ModelConfig, build
from bytenet.model.blocks import StackConfig
from bytenet.model.ngrams import NgramConfig
from bytenet.weights import expanded, in_precision, quantize, save_tensors
from tests.model.strategies import VOCABULARY, table_1

LETTERS = Characters("123456789")
STACK = StackConfig(num_blocks=2, dilations=(1, 2))
NUMBERS = st.floats(-(2.0**127), 2.0**127, width=32)
MATRICES = arrays(np.float32, array_shapes(min_dims=2, max_dims=3, max_side=9), elements=NUMBERS).map(torch.from_numpy)
TRANSLATORS = table_1(source_vocabulary=VOCABULARY, target_vocabulary=VOCABULARY, inner_channels=16)
CONFIGS = {
    "language model of n-grams": LanguageModelConfig(
        vocabulary=VOCABULARY,
        inner_channels=16,
        decoder=STACK,
        ngrams=NgramConfig(sizes=(2, 3), rows=32, channels=8),
    ),
    "ByteNet": TRANSLATORS["ByteNet"],
    "Transformer": TRANSLATORS["Transformer"],
}


def make(config: ModelConfig) -> Model:
    torch.manual_seed(0)
    with torch.device("cpu"):
        return build(config).eval()


def small() -> Model:
    return make(LanguageModelConfig(inner_channels=8, decoder=STACK))


def equal(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def weights_size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.glob("*.safetensors"))


@given(MATRICES)
def test_int8_is_half_a_scale_away_at_most(matrix):
    stored, scale = quantize(matrix)
    assert (stored.dtype, scale.dtype) == (torch.int8, torch.float32)
    assert scale.numel() == len(matrix)
    error = matrix.double() - stored.double() * scale.double()
    assert (error.abs() <= 0.5 * scale.double() * (1 + 1e-6)).all()


@given(MATRICES)
def test_int8_of_int8_is_the_same(matrix):
    stored, scale = quantize(matrix)
    again = quantize(stored * scale)
    assert torch.equal(again[0], stored)
    assert torch.equal(again[1], scale)


def test_int8_of_int8_is_the_same_whatever_the_largest_number():
    """Rounding may not make another scale of it: all mantissas that there are, in rows of one number."""
    largest = torch.arange(2**23, 2**24, device="cpu").float()[:, None]
    stored, scale = quantize(largest)
    assert (stored == 127).all()
    assert torch.equal(quantize(stored * scale)[1], scale)


@given(MATRICES, st.data())
def test_a_row_by_itself_is_stored_alike(matrix, data):
    """Large numbers in one row cost the others nothing, and a row of zeros stays one."""
    row = data.draw(st.integers(0, len(matrix) - 1))
    matrix[row - 1] = 0
    stored, scale = quantize(matrix)
    alone, alone_scale = quantize(matrix[row : row + 1])
    assert torch.equal(stored[row : row + 1] * scale[row : row + 1], alone * alone_scale)
    assert not (stored * scale)[row - 1].any()


@pytest.mark.parametrize("kind", CONFIGS)
def test_a_model_comes_back_in_float32_and_is_stored_again_without_loss(kind, tmp_path):
    model = make(CONFIGS[kind])
    with torch.no_grad():
        for parameter in model.parameters():
            parameter[0] = 0
    vocabularies = [LETTERS] * len(model.config.vocabulary_configs)
    save_model(model, vocabularies, tmp_path / "once", precision="int8")
    loaded, _ = load_model(tmp_path / "once")
    assert {parameter.dtype for parameter in loaded.parameters()} == {torch.float32}
    for name, weight in model.state_dict().items():
        found = loaded.state_dict()[name]
        bound = weight.abs().amax(dim=-1, keepdim=True) / 127 if weight.ndim > 1 else 0.0
        assert ((found - weight).abs() <= 0.501 * bound).all(), name
        assert torch.equal(found, weight) == (weight.ndim == 1), name
    save_model(loaded, vocabularies, tmp_path / "twice", precision="int8")
    once, twice = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("once", "twice"))
    assert once == twice


@pytest.mark.parametrize("kind", CONFIGS)
def test_a_folder_writes_as_its_expanded_weights(kind, tmp_path):
    model = make(CONFIGS[kind])
    vocabularies = [LETTERS] * len(model.config.vocabulary_configs)
    save_model(model, vocabularies, tmp_path / "model", precision="int8")
    device = str(torch.get_default_device())
    stored = load(tmp_path / "model", device=device, precision=torch.float32)
    model.load_state_dict(expanded(in_precision(model.state_dict(), "int8"), tmp_path))
    by_hand = Pipeline(model.to(device), vocabularies, precision=torch.float32)
    if stored.translates:
        texts = ["123", "9876"]
        assert stored.translate(texts, beam=2, max_length=9) == by_hand.translate(texts, beam=2, max_length=9)
    else:
        written = ["".join(pipeline.generate("123", length=20, seed=1)) for pipeline in (stored, by_hand)]
        assert written[0] == written[1] != ""


def test_what_is_in_bfloat16_comes_back_in_float32(tmp_path):
    save_model(small().bfloat16(), [Bytes()], tmp_path / "model", precision="int8")
    loaded, _ = load_model(tmp_path / "model")
    assert {parameter.dtype for parameter in loaded.parameters()} == {torch.float32}


def test_matrices_take_about_a_quarter_of_the_space(tmp_path):
    model = make(LanguageModelConfig(inner_channels=128, decoder=STACK))
    sizes = {}
    for precision in ("float32", "bfloat16", "int8"):
        save_model(model, [Bytes()], tmp_path / precision, precision=precision)
        sizes[precision] = weights_size(tmp_path / precision)
    assert sizes["bfloat16"] < 0.51 * sizes["float32"]
    assert sizes["int8"] < 0.27 * sizes["float32"]


@pytest.mark.parametrize("precision", ["float32", "int8"])
@pytest.mark.parametrize("shard_bytes", [1, 3000, 10_000])
def test_no_file_is_larger_than_asked_for_but_for_a_single_tensor(precision, shard_bytes, tmp_path):
    model = small()
    save_model(model, [Bytes()], tmp_path / "model", precision=precision, shard_bytes=shard_bytes)
    index = json.loads((tmp_path / "model" / "model.safetensors.index.json").read_text())
    shards = list(index["weight_map"].values())
    assert {file.name for file in (tmp_path / "model").glob("*.safetensors")} == set(shards)
    for name in set(shards):
        assert (tmp_path / "model" / name).stat().st_size <= shard_bytes or shards.count(name) == 1
    assert index["weight_map"].keys() == in_precision(model.state_dict(), precision).keys()
    loaded, _ = load_model(tmp_path / "model")
    assert equal(loaded.state_dict(), expanded(in_precision(model.state_dict(), precision), tmp_path))


MATRIX, SCALE = "decoder.blocks.0.reduce.weight", "decoder.blocks.0.reduce.weight.scale"
DAMAGES = {
    "no scale": (lambda t: t.pop(SCALE), f"lack {SCALE}"),
    "no tensor": (lambda t: t.pop(MATRIX), f"lack {MATRIX}"),
    "a scale of float32": (lambda t: t.update({MATRIX: t[MATRIX].float()}), f"hold {SCALE}, which"),
    "a scale too many": (lambda t: t.update({"other.scale": t[SCALE].clone()}), "hold other.scale, which"),
    "one scale for all": (lambda t: t.update({SCALE: t[SCALE][:1]}), "float32 of the shape (1, 1), but must be"),
    "a flat scale": (lambda t: t.update({SCALE: t[SCALE][:, 0]}), "float32 of the shape (8,), but must be"),
    "a rough scale": (lambda t: t.update({SCALE: t[SCALE].half()}), "float16 of the shape (8, 1), but must be"),
    "a scale of nan": (lambda t: t[SCALE][3].fill_(float("nan")), f"{SCALE} has scales that are not finite"),
    "a scale of inf": (lambda t: t[SCALE][3].fill_(float("inf")), f"{SCALE} has scales that are not finite"),
    "a scale below 0": (lambda t: t[SCALE][3].neg_(), f"{SCALE} has scales that are not finite or not above 0"),
    "another shape": (lambda t: t.update({MATRIX: t[MATRIX][:, 1:]}), f"the shape of {MATRIX} is (8, 15)"),
    "another type": (lambda t: t.update({MATRIX: t[MATRIX].int()}) or t.pop(SCALE), f"{MATRIX} is int32"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_int8_is_refused_in_one_line(damage, tmp_path):
    model = small()
    tensors = in_precision(model.state_dict(), "int8")
    do, message = DAMAGES[damage]
    do(tensors)
    save_model(model, [Bytes()], tmp_path / "model", weights=tensors)
    with pytest.raises(ValueError) as error:  # noqa: PT011
        load_model(tmp_path / "model")
    assert str(error.value).startswith(f"{tmp_path / 'model'}: ")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), torch.finfo(torch.float32).max])
def test_what_is_not_finite_is_not_stored_in_int8(number, tmp_path):
    model = small()
    with torch.no_grad():
        model.get_parameter(MATRIX)[2, 3] = number
    with pytest.raises(ValueError, match=f"^{MATRIX} has numbers that are not finite"):
        save_model(model, [Bytes()], tmp_path / "model", precision="int8")
    assert not any(tmp_path.iterdir())


def test_what_the_system_says_against_a_file_comes_as_its_error(tmp_path):
    """safetensors has an error of its own for it, which a check for a full disk would miss."""
    with pytest.raises(FileNotFoundError, match="nowhere"):
        save_tensors({"x": torch.zeros(10)}, tmp_path / "nowhere" / "model.safetensors")
