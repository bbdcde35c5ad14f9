"""What existing clients already speak: LibreTranslate's and OpenAI's, unchanged."""

import math
from collections.abc import Iterator
from urllib.error import HTTPError

import openai
import pytest
from libretranslatepy import LibreTranslateAPI

from tests.serving.servers import Running, serving

TEXTS = ["", "abc", "Über 1 € kostet es.", "日本語", "a b c d e f g h" * 4]


@pytest.fixture(scope="module")
def service() -> Iterator[Running]:
    with serving() as running:
        yield running


@pytest.fixture(scope="module")
def client(service) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{service.address}/v1", api_key="none", max_retries=0) as client:
        yield client


@pytest.mark.parametrize("text", TEXTS)
def test_libretranslate_translates_as_the_pipeline_does(service, text):
    translated = LibreTranslateAPI(service.address).translate(text, "source", "target")
    assert translated == service.translator.translate(text)


def test_libretranslate_knows_the_languages_and_what_is_not_offered(service):
    api = LibreTranslateAPI(service.address)
    assert [(found["code"], found["targets"]) for found in api.languages()] == [("source", ["target"]), ("target", [])]
    with pytest.raises(HTTPError, match="404"):
        api.detect("abc")
    with pytest.raises(HTTPError, match="400"):
        api.translate("abc", "xx", "target")


@pytest.mark.parametrize("prompt", TEXTS)
def test_openai_completes_as_the_pipeline_does(service, client, prompt):
    found = client.completions.create(model="mine", prompt=prompt, max_tokens=30, seed=3, temperature=0.7, top_p=0.9)
    assert found.choices[0].text == "".join(
        service.writer.generate(prompt, length=30, seed=3, temperature=0.7, top_p=0.9)
    )
    assert found.choices[0].finish_reason == "length"
    assert found.usage.completion_tokens == 30


@pytest.mark.parametrize("stop", [None, ["no such text"], ["e"]])
def test_a_stream_is_the_answer_in_pieces(client, stop):
    asked = {"model": "mine", "prompt": ["ab", "cd"], "max_tokens": 25, "seed": 5, "n": 2, "logprobs": 1, "stop": stop}
    whole = client.completions.create(**asked)
    pieces: dict[int, list] = {choice.index: [] for choice in whole.choices}
    for event in client.completions.create(**asked, stream=True, stream_options={"include_usage": True}):
        for choice in event.choices:
            pieces[choice.index].append(choice)
    assert event.usage == whole.usage
    assert sorted(pieces) == [0, 1, 2, 3]
    for choice in whole.choices:
        assert "".join(piece.text for piece in pieces[choice.index]) == choice.text
        assert pieces[choice.index][-1].finish_reason == choice.finish_reason
        tokens = [token for piece in pieces[choice.index] if piece.logprobs for token in piece.logprobs.tokens]
        assert tokens == choice.logprobs.tokens


@pytest.mark.parametrize("text", TEXTS[1:])
def test_log_probabilities_sum_to_the_score(service, client, text):
    found = client.completions.create(model="mine", prompt=text, max_tokens=0, echo=True, logprobs=0).choices[0]
    (score,) = service.writer.score([text])
    assert found.text == text
    assert -sum(found.logprobs.token_logprobs) / math.log(2) == pytest.approx(score.bits, abs=1e-4)
    assert len(found.logprobs.tokens) == len(text.encode())
    assert [text[place] for place in found.logprobs.text_offset] == [c for c in text for _ in c.encode()]


def test_a_prompt_may_be_tokens(service, client):
    ids = service.writer.vocabularies[0].encode("Über")
    texts = [
        client.completions.create(model="mine", prompt=prompt, max_tokens=9, seed=1, echo=True).choices[0].text
        for prompt in ("Über", ids, [ids])
    ]
    assert texts[0].startswith("Über")
    assert len(set(texts)) == 1


def test_a_stop_ends_a_text_and_is_no_part_of_it(service, client):
    free = client.completions.create(model="mine", prompt="ab", max_tokens=60, seed=2).choices[0].text
    stop = free[20:23]
    found = client.completions.create(model="mine", prompt="ab", max_tokens=60, seed=2, stop=stop).choices[0]
    assert found.text == free[: free.index(stop)]
    assert found.finish_reason == "stop"


def test_what_cannot_be_done_is_said_in_a_line(client):
    for wrong, message in (
        ({"model": "gpt"}, "does not exist"),
        ({"suffix": "x"}, "suffix: not supported"),
        ({"n": 1000}, "at most"),
        ({"max_tokens": 10**6}, "max_tokens may be at most"),
        ({"prompt": [10**6]}, "tokens are from"),
        ({"temperature": -1}, "temperature"),
    ):
        with pytest.raises(openai.APIStatusError, match=message) as raised:
            client.completions.create(**({"model": "mine", "prompt": "a"} | wrong))
        assert raised.value.status_code in (400, 404)


def test_the_models_are_listed(client):
    assert [model.id for model in client.models.list()] == ["mine"]
