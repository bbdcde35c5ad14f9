"""Batches: a pure function of (seed, step), the same rows in any number of parts."""

import itertools
from collections import Counter
from dataclasses import replace

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from bytenet.data.batches import Batch, PairBatches, TextBatches
from bytenet.data.encoding import EncodedText
from bytenet.model import LanguageModelConfig, TranslatorConfig
from bytenet.model.blocks import StackConfig
from bytenet.model.translator import UnfoldingConfig
from bytenet.training.objective import Objective
from bytenet.vocabulary import BEGIN, END, PAD
from tests.data.strategies import encoded, token_pairs
from tests.model.strategies import VOCABULARY, in_double

STACK = StackConfig(num_blocks=1, dilations=(2,))
LANGUAGE_MODEL = LanguageModelConfig(vocabulary=VOCABULARY, inner_channels=6, decoder=STACK)
TRANSLATOR = TranslatorConfig(
    source_vocabulary=VOCABULARY, target_vocabulary=VOCABULARY, inner_channels=6, encoder=STACK, decoder=STACK
)

Row = tuple[tuple[int, ...], ...]
"""Inputs, targets and source of a row, without padding."""

unfoldings = st.builds(
    UnfoldingConfig,
    a=st.sampled_from([0.1, 0.5, 1.0, 1.2]),
    b=st.sampled_from([0.0, 3.0]),
    multiple=st.integers(1, 6),
)


@st.composite
def text_batches(draw: st.DrawFn) -> TextBatches:
    window = draw(st.integers(1, 9))
    text = EncodedText(torch.arange(3, 3 + draw(st.integers(window, 60)), dtype=torch.uint8))
    context, rows = draw(st.integers(0, window - 1)), draw(st.integers(1, 6))
    return TextBatches(text, window=window, context=context, rows=rows, seed=draw(st.integers(0, 99)))


@st.composite
def pair_batches(draw: st.DrawFn) -> PairBatches:
    pairs, seed = encoded(draw(token_pairs)), draw(st.integers(0, 99))
    return PairBatches(pairs, draw(unfoldings), batch_positions=draw(st.integers(1, 200)), seed=seed)


def again(batches: TextBatches | PairBatches, **changes: int) -> TextBatches | PairBatches:
    """Batches of the same data, made anew."""
    if isinstance(batches, PairBatches):
        options = {"batch_positions": batches.batch_positions, "seed": batches.seed}
        return PairBatches(batches.pairs, batches.unfolding, **(options | changes))
    options = {"window": batches.window, "context": batches.context, "rows": batches.rows, "seed": batches.seed}
    return TextBatches(EncodedText(batches.tokens), **(options | changes))


def contents(batch: Batch) -> tuple[object, ...]:
    source = None if batch.source is None else batch.source.tolist()
    return (
        batch.inputs.tolist(),
        batch.targets.tolist(),
        batch.num_targets,
        batch.num_characters,
        source,
        batch.source_lengths,
    )


def rows_of(batch: Batch) -> Counter[Row]:
    """What is learnt from, row by row; a row of PAD alone teaches nothing."""
    sources = [[]] * len(batch.inputs) if batch.source is None else batch.source.tolist()
    rows = zip(batch.inputs.tolist(), batch.targets.tolist(), sources, strict=True)
    return Counter(tuple(map(unpadded, row)) for row in rows if set(row[1]) != {PAD})


def unpadded(tokens: list[int]) -> tuple[int, ...]:
    return tuple(itertools.dropwhile(lambda token: token == PAD, reversed(tokens)))[::-1]


@given(st.one_of(text_batches(), pair_batches()), st.lists(st.integers(0, 40), min_size=1, max_size=6))
def test_a_batch_is_a_pure_function_of_seed_and_step(batches, steps):
    expected = {step: contents(again(batches).batch(step)) for step in steps}
    for step in steps:
        assert contents(batches.batch(step)) == expected[step]
    for step in reversed(steps):
        assert contents(batches.batch(step)) == expected[step]


@given(st.one_of(text_batches(), pair_batches()), st.integers(0, 40), st.integers(1, 9))
def test_all_parts_together_are_the_whole_batch(batches, step, num_parts):
    whole = batches.batch(step)
    parts = [batches.batch(step, part, num_parts) for part in range(num_parts)]
    assert sum(map(rows_of, parts), Counter()) == rows_of(whole)
    assert sum(part.num_characters for part in parts) == whole.num_characters
    learnt = sum(int((part.targets != PAD).sum()) for part in parts)
    assert {part.num_targets for part in parts} == {whole.num_targets} == {learnt}


@pytest.mark.parametrize("kind", ["text", "pairs"])
def test_more_parts_than_rows_do_not_stop_a_step(kind):
    """A part without rows has a loss of nothing, with gradients for whoever waits for them."""
    if kind == "text":
        batches = TextBatches(EncodedText(torch.arange(3, 12)), window=5, context=2, rows=1, seed=0)
        objective = Objective(in_double(LANGUAGE_MODEL), dtype=torch.float64)
    else:
        batches = PairBatches(encoded([([4, 5], [6, 7])]), UnfoldingConfig(multiple=4), batch_positions=99, seed=0)
        objective = Objective(in_double(TRANSLATOR), dtype=torch.float64)
    loss, nats = objective(batches.batch(0, 2, 3))
    loss.backward()
    assert loss.item() == nats.item() == 0
    for parameter in objective.parameters():
        assert parameter.grad is not None
        assert not parameter.grad.any()


# Texts


@given(text_batches(), st.integers(0, 1000))
def test_windows_lie_inside_the_text(batches, step):
    text, batch = batches.tokens.tolist(), batches.batch(step)
    assert batch.inputs.shape == batch.targets.shape == (batches.rows, batches.window)
    assert batch.num_characters == batches.rows * batches.window
    for inputs, targets in zip(batch.inputs.tolist(), batch.targets.tolist(), strict=True):
        assert inputs[0] == BEGIN
        start = text.index(targets[-1]) - batches.window + 1  # every token of this text occurs once
        window = text[start : start + batches.window]
        assert start >= 0
        assert inputs[1:] == window[:-1]
        assert targets == [PAD] * batches.context + window[batches.context :]


def test_every_window_of_a_text_is_drawn_as_often_as_any_other():
    batches = TextBatches(EncodedText(torch.arange(3, 13)), window=4, context=0, rows=700, seed=1)
    firsts = Counter(batches.batch(0).targets[:, 0].tolist())
    assert set(firsts) == set(range(3, 10))  # 10 tokens have 7 windows of 4
    assert all(abs(count - 100) < 5 * 100**0.5 for count in firsts.values())


@given(st.integers(0, 999), st.integers(0, 999))
def test_another_seed_or_step_draws_other_windows(seed, step):
    text = EncodedText(torch.arange(3, 5000))
    batches = TextBatches(text, window=9, context=2, rows=4, seed=seed)
    others = [batches.batch(step + 1), again(batches, seed=seed + 1).batch(step), again(batches, seed=step).batch(seed)]
    for other in others[: 3 if seed != step else 2]:
        assert rows_of(batches.batch(step)) != rows_of(other)


# Pairs


@given(pair_batches(), st.integers(0, 3))
@example(PairBatches(encoded([([], [])]), UnfoldingConfig(), batch_positions=1, seed=0), 0)
def test_an_epoch_passes_over_every_pair_once(batches, epoch):
    steps = range(epoch * batches.steps_per_epoch, (epoch + 1) * batches.steps_per_epoch)
    seen = sum((rows_of(batches.batch(step)) for step in steps), Counter())
    assert seen == Counter(
        ((BEGIN, *target), (*target, END), tuple(source)) for source, target in pairs_by_hand(batches)
    )


def pairs_by_hand(batches: PairBatches) -> list[tuple[list[int], list[int]]]:
    sources, targets = iter(batches.pairs.source.tolist()), iter(batches.pairs.target.tolist())
    lengths = zip(batches.pairs.source_lengths, batches.pairs.target_lengths, strict=True)
    return [(list(itertools.islice(sources, s)), list(itertools.islice(targets, t))) for s, t in lengths]


@given(pair_batches())
def test_sources_of_a_batch_unfold_to_one_length(batches):
    for step in range(batches.steps_per_epoch):
        batch = batches.batch(step)
        own = [len(unpadded(row)) for row in batch.source.tolist()]
        assert list(batch.source_lengths) == own
        assert len({batches.unfolding.unfolded_length(length) for length in own}) == 1
        assert batch.source.shape[1] == max(own)  # to its unfolded length a model fills it up itself


@given(pair_batches())
def test_targets_are_filled_up_to_a_multiple_that_the_longest_needs(batches):
    for step in range(batches.steps_per_epoch):
        batch = batches.batch(step)
        longest = max(len(unpadded(row)) for row in batch.targets.tolist())
        assert batch.targets.shape == batch.inputs.shape
        assert batch.targets.shape[1] == batches.unfolding.padded_length(longest)
        lengths = [len(unpadded(row)) - 1 for row in batch.targets.tolist()]
        assert batch.num_characters == sum(batch.source_lengths) + sum(lengths)


def positions(batches: PairBatches, batch: Batch) -> int:
    """What a batch costs: the positions that encoder and decoder go over."""
    return sum(batches.unfolding.read_length(n) for n in batch.source_lengths) + batch.targets.numel()


@given(pair_batches())
def test_a_batch_stays_within_its_budget_unless_it_is_a_single_row(batches):
    for step in range(batches.steps_per_epoch):
        batch = batches.batch(step)
        assert len(batch.inputs) == 1 or positions(batches, batch) <= batches.batch_positions


@given(pair_batches())
def test_batches_are_as_full_as_the_budget_allows(batches):
    """No two batches of an epoch with the same padded lengths could have been one."""
    alike: dict[tuple[int, int], list[Batch]] = {}
    for batch in map(batches.batch, range(batches.steps_per_epoch)):
        lengths = batches.unfolding.padded_length(batch.source_lengths[0]), batch.targets.shape[1]
        alike.setdefault(lengths, []).append(batch)
    for same in alike.values():
        for pair in itertools.combinations(same, 2):
            assert sum(positions(batches, batch) for batch in pair) > batches.batch_positions


@given(pair_batches())
def test_every_epoch_has_as_many_steps(batches):
    assert {len(batches.order(epoch)) for epoch in range(4)} == {batches.steps_per_epoch}


@given(st.integers(0, 99))
def test_another_seed_or_epoch_has_another_order(seed):
    pairs = encoded([([4] * (i % 5), [3 + i % 9] * (i % 7)) for i in range(60)])
    batches = PairBatches(pairs, UnfoldingConfig(multiple=3), batch_positions=60, seed=seed)
    other = again(batches, seed=seed + 1)
    orders = [[rows.tolist() for rows in b.order(epoch)] for b in (batches, other) for epoch in (0, 1)]
    for a, b in itertools.combinations(orders, 2):
        assert a != b
        assert sorted(map(sorted, a)) != sorted(map(sorted, b))  # not only the steps in another order


@given(pair_batches())
def test_the_share_of_padding_is_a_count_by_hand(batches):
    characters = total = 0
    for step in range(batches.steps_per_epoch):
        batch = batches.batch(step)
        characters += batch.num_characters
        total += positions(batches, batch)
    assert batches.share_of_padding() == pytest.approx(1 - characters / total, abs=1e-12)
    assert 0 <= batches.share_of_padding() <= 1


def test_a_batch_goes_to_a_device_whole(device):
    batches = PairBatches(encoded([([4, 5], [6, 7])]), UnfoldingConfig(multiple=4), batch_positions=99, seed=0)
    batch = batches.batch(0)
    moved = batch.to(device)
    assert contents(moved) == contents(batch)
    assert {moved.inputs.device.type, moved.targets.device.type, moved.source.device.type} == {device.type}


@given(pair_batches())
def test_a_model_reads_every_batch(batches):
    """Empty sources and empty targets too."""
    model = in_double(replace(TRANSLATOR, unfolding=batches.unfolding))
    batch = batches.batch(0)
    logits, _ = model(batch.inputs, model.start(batch.source, batch.source_lengths))
    assert logits.shape == (*batch.inputs.shape, VOCABULARY.size)
    assert logits.isfinite().all()
