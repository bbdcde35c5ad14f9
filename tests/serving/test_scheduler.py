"""The thread that decodes: everybody's text as if alone, room for who comes next, nothing lost at the end."""

import random
import threading
from collections.abc import Iterator

import pytest

from bytenet.decoding.beam_search import BeamConfig
from bytenet.decoding.config import DecodingConfig
from bytenet.decoding.sampling import SamplingConfig
from bytenet.serving.jobs import CompletionJob, LateError, TranslationJob, Written
from bytenet.serving.scheduler import BusyError, Scheduler, Share
from tests.pipelines import LETTERS, language_model, pipeline_of, translator

LONG = 60.0


@pytest.fixture
def own() -> DecodingConfig:
    return DecodingConfig()


@pytest.fixture
def scheduler(own) -> Iterator[Scheduler]:
    scheduler = Scheduler(pipeline_of(translator(), decoding=own), pipeline_of(language_model()), most=40)
    yield scheduler
    scheduler.close()


def texts(number: int) -> list[str]:
    rng = random.Random(number)
    return ["".join(rng.choices("abcdefgh ", k=rng.choice([0, 1, 5, 40, 70]))) for _ in range(number)]


def translate(scheduler: Scheduler, text: str, config: BeamConfig, **options: object) -> TranslationJob:
    job = scheduler.translation(text, config, seconds=LONG, **options)
    scheduler.put(job)
    return job


def completion(prompt: str, **options: object) -> tuple[CompletionJob, list[tuple[int, Written]]]:
    written: list[tuple[int, Written]] = []
    asked = {"number": 1, "length": 20, "config": SamplingConfig(), "seed": 1, "echo": False, "alternatives": 0}
    ids = LETTERS.encode(prompt)
    job = CompletionJob(
        size=len(ids),
        seconds=LONG,
        prompt=ids,
        emit=lambda i, w: written.append((i, w)),
        ended=lambda i, e: None,
        **(asked | options),
    )
    return job, written


@pytest.mark.parametrize("own", [DecodingConfig(), DecodingConfig(recase=True)])
@pytest.mark.parametrize("split", [0, 30])
def test_translations_are_those_of_each_text_alone(scheduler, split):
    configs = [BeamConfig(beam=3), BeamConfig(beam=2, n_best=2), BeamConfig(beam=3, length_penalty=1.0)]
    asked = [(text, configs[i % 3]) for i, text in enumerate(texts(15))]
    jobs = [translate(scheduler, text, config, split=split) for text, config in asked]
    for job, (text, config) in zip(jobs, asked, strict=True):
        options = {"beam": config.beam, "n_best": config.n_best, "length_penalty": config.length_penalty}
        (alone,) = scheduler.translator.translations([text], split=split, **options)
        found = job.future.result(LONG)
        assert [(one.text, one.ended) for one in found] == [(one.text, one.ended) for one in alone]
        assert found[0].log_likelihood == pytest.approx(alone[0].log_likelihood)


def test_continuations_are_those_of_each_prompt_alone(scheduler):
    prompts = [text for text in texts(20) if text]
    asked = [completion(prompt, seed=i, length=i) for i, prompt in enumerate(prompts)]
    for job, _ in asked:
        scheduler.put(job)
    for i, (job, written) in enumerate(asked):
        job.future.result(LONG)
        alone = "".join(scheduler.writer.generate(prompts[i], length=i, seed=i))
        assert LETTERS.decode([symbol.token for _, symbol in written]) == alone


def test_echo_and_likelihoods_are_those_of_scoring(scheduler):
    job, written = completion("abc hgf", echo=True, length=0, alternatives=3)
    scheduler.put(job)
    job.future.result(LONG)
    assert LETTERS.decode([symbol.token for _, symbol in written]) == "abc hgf"
    nats = -sum(symbol.log_probability for _, symbol in written)
    (score,) = scheduler.writer.score(["abc hgf"])
    assert nats / 0.6931471805599453 == pytest.approx(score.bits, abs=1e-9)
    for _, symbol in written:
        likely = [value for _, value in symbol.alternatives]
        assert len(likely) == 3
        assert likely == sorted(likely, reverse=True)
        assert symbol.log_probability <= likely[0]


def test_several_continuations_differ_and_the_first_is_that_of_one(scheduler):
    alone, one = completion("ab")
    several, many = completion("ab", number=3)
    for job in (alone, several):
        scheduler.put(job)
        job.future.result(LONG)
    by_number = [[symbol.token for i, symbol in many if i == number] for number in range(3)]
    assert by_number[0] == [symbol.token for _, symbol in one]
    assert len(set(map(tuple, by_number))) == 3


def test_who_goes_away_leaves_its_rows_to_others(scheduler):
    endless = [completion("a", length=10**9)[0] for _ in range(10)]
    for job in endless:
        scheduler.put(job)
    while scheduler.rows < 10:
        threading.Event().wait(0.01)
    for job in endless[1:]:
        assert job.future.cancel()
    while scheduler.rows > 1:
        threading.Event().wait(0.01)
    assert scheduler.requests == 1
    endless[0].future.cancel()


def test_beyond_its_limit_requests_are_refused_and_later_taken_again(scheduler):
    endless = [completion("a", length=10**9)[0] for _ in range(40)]
    for job in endless:
        scheduler.put(job)
    with pytest.raises(BusyError, match="40 requests are on their way"):
        translate(scheduler, "abc", BeamConfig(beam=2))
    endless[0].future.cancel()
    translate(scheduler, "abc", BeamConfig(beam=2)).future.result(LONG)
    for job in endless:
        job.future.cancel()


def test_what_takes_too_long_ends_and_says_so(scheduler):
    late, _ = completion("a", length=10**9)
    late.seconds, late.deadline = 0.0, 0.0
    scheduler.put(late)
    with pytest.raises(LateError, match="not done after 0 s"):
        late.future.result(LONG)


def test_a_fault_in_one_lane_leaves_the_others_alone(scheduler, monkeypatch):
    job, _ = completion("ab", length=10**9)
    scheduler.put(job)
    monkeypatch.setattr(scheduler.translator.vocabularies[0].__class__, "encode_array", broken)
    with pytest.raises(ZeroDivisionError):
        translate(scheduler, "abc", BeamConfig(beam=2)).future.result(LONG)
    monkeypatch.undo()
    assert not job.future.done()
    translate(scheduler, "abc", BeamConfig(beam=2)).future.result(LONG)
    job.future.cancel()


def broken(*_: object) -> None:
    raise ZeroDivisionError


def test_time_goes_to_all_lanes_and_twice_as_much_to_shorter_requests(monkeypatch):
    scheduler = Scheduler(None, None)
    scheduler.close()
    clock, worked = [0.0], [0.0, 0.0, 0.0]
    monkeypatch.setattr("bytenet.serving.scheduler.time.perf_counter", lambda: clock[0])

    class Busy:
        def __init__(self, number: int, seconds: float) -> None:
            self.number, self.seconds = number, seconds

        def work(self) -> int:
            clock[0] += self.seconds
            worked[self.number] += self.seconds
            return 0

    lanes = [Busy(0, 0.01), Busy(1, 0.03), Busy(2, 0.07)]
    scheduler._shares = {i: Share(lane, 0.0, 2**i) for i, lane in enumerate(lanes)}
    while clock[0] < 70:
        scheduler._work()
    assert worked == pytest.approx([40, 20, 10], abs=0.2)


def test_closing_finishes_what_was_taken_and_takes_no_more():
    scheduler = Scheduler(pipeline_of(translator()), None)
    jobs = [translate(scheduler, text, BeamConfig(beam=2)) for text in texts(20)]
    scheduler.close()
    assert all(job.future.done() for job in jobs)
    assert not scheduler.is_alive
    with pytest.raises(BusyError, match="shutting down"):
        translate(scheduler, "abc", BeamConfig(beam=2))
