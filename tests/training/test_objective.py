"""What is made small."""

import pytest
import torch

from bytenet.data.batches import Batch
from bytenet.model import LanguageModelConfig, build
from bytenet.model.blocks import StackConfig
from bytenet.training.config import TrainingConfig
from bytenet.training.objective import Objective
from bytenet.vocabulary import BEGIN, PAD, VocabularyConfig

CONFIG = LanguageModelConfig(
    vocabulary=VocabularyConfig(kind="bytes"), inner_channels=4, decoder=StackConfig(num_blocks=1)
)


@pytest.fixture
def tokens() -> torch.Tensor:
    symbols = torch.randint(3, 259, (40, 250), generator=torch.Generator().manual_seed(0))
    symbols[:, 0], symbols[:, 200:] = BEGIN, PAD
    return symbols


def objective(**training: float) -> Objective:
    torch.manual_seed(0)
    return Objective(build(CONFIG), TrainingConfig(**training))


def test_noise_replaces_a_share_of_the_symbols_by_others_of_the_batch(tokens):
    noisy = objective(noise=0.3).with_noise(tokens, 0.3)
    changed = noisy != tokens
    assert 0.27 < changed[:, 1:200].float().mean() * 250 / 199 < 0.33  # some were to be replaced by padding, and stay
    assert not changed[:, 0].any()
    assert not changed[:, 200:].any()
    assert (noisy[changed] > BEGIN).all()
    assert set(noisy[changed].tolist()) <= set(tokens.flatten().tolist())


def test_noise_is_for_training_alone_and_leaves_the_targets_as_they_are(tokens):
    batch = Batch(inputs=tokens[:, :20], targets=tokens[:, 1:21], num_targets=800, num_characters=800)
    plain, noisy = objective(), objective(noise=0.5)
    assert plain.eval()(batch)[0] == noisy.eval()(batch)[0]
    assert plain.train()(batch)[0] != noisy.train()(batch)[0]
    assert torch.equal(batch.inputs, tokens[:, :20])


@pytest.mark.parametrize("name", ["noise", "source_noise", "label_smoothing"])
def test_shares_are_shares(name):
    with pytest.raises(ValueError, match=f"^{name} must be at least 0 and less than 1, not 1.0"):
        TrainingConfig(**{name: 1.0})
