"""What is made small."""

import pytest
import torch

from bytenet.data.batches import Batch
from bytenet.model import LanguageModelConfig, build
from bytenet.model.baselines.transformer import TransformerConfig
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


def test_looking_ahead_adds_the_bits_of_further_targets_and_only_in_training(tokens):
    batch = Batch(inputs=tokens[:, :20], targets=tokens[:, 1:21], num_targets=800, num_characters=800)
    plain, ahead = objective(), objective(lookahead=2, lookahead_weight=0.5)
    ahead.model.load_state_dict(plain.model.state_dict())
    assert ahead.eval()(batch)[0] == plain.eval()(batch)[0]
    for name, own in ahead.model.decoder.head.state_dict().items():  # heads that say what the model's own says ...
        layer, _, parameter = name.partition(".")
        copies = getattr(ahead.heads, layer)
        for copy in copies if isinstance(copies, torch.nn.ModuleList) else [copies]:
            copy.load_state_dict({parameter: own}, strict=False)  # ... of targets that lie further ahead
    loss, nats = ahead.train()(batch)
    assert nats == plain.train()(batch)[1]
    logits = ahead.model(batch.inputs, ahead.model.start(len(batch.inputs)))[0].log_softmax(-1)
    expected = nats
    for row, targets in zip(logits, batch.targets.tolist(), strict=True):
        expected = expected - 0.5 * sum(row[t, targets[t + 1]] for t in range(19) if targets[t + 1] != PAD)
        expected = expected - 0.25 * sum(row[t, targets[t + 2]] for t in range(18) if targets[t + 2] != PAD)
    torch.testing.assert_close(loss, expected)


def test_targets_shorter_than_the_look_ahead_are_learnt_all_the_same(tokens):
    batch = Batch(inputs=tokens[:, :2], targets=tokens[:, 1:3], num_targets=80, num_characters=80)
    assert torch.isfinite(objective(lookahead=4).train()(batch)[0])


def test_only_bytenets_look_ahead():
    with pytest.raises(ValueError, match=r"^training\.lookahead is for ByteNets alone"):
        Objective(build(TransformerConfig(inner_channels=8)), TrainingConfig(lookahead=1))


@pytest.mark.parametrize("name", ["noise", "source_noise", "label_smoothing"])
def test_shares_are_shares(name):
    with pytest.raises(ValueError, match=f"^{name} must be at least 0 and less than 1, not 1.0"):
        TrainingConfig(**{name: 1.0})
