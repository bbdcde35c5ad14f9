"""Translations over HTTP are searched as the model asks for itself, unless a request says otherwise."""

from collections.abc import Iterator

import httpx
import pytest
from libretranslatepy import LibreTranslateAPI

from bytenet.decoding.config import DecodingConfig
from bytenet.serving import application
from bytenet.serving.config import ServingConfig
from tests.pipelines import pipeline_of, translator
from tests.serving.servers import Running, serving

TEXTS = ["abcdefgh"[i % 8 :] * (1 + i % 3) + "abcdefgh"[: i % 7] for i in range(40)]
OWN = DecodingConfig(beam=3, length_penalty=0.6)


@pytest.fixture(scope="module")
def service() -> Iterator[Running]:
    with serving(translating=pipeline_of(translator(end=1.0), decoding=OWN), most_beam=12) as running:
        yield running


def post(service: Running, **asked: object) -> httpx.Response:
    return httpx.post(f"{service.address}/translate", json={"q": TEXTS, **asked}, timeout=60)


def test_what_a_request_leaves_out_is_the_models(service):
    plain = pipeline_of(translator(end=1.0))
    expected = plain.translate(TEXTS, beam=3, length_penalty=0.6)
    assert expected != plain.translate(TEXTS, beam=3)  # else it would not be seen
    assert expected != plain.translate(TEXTS, beam=12, length_penalty=0.6)
    assert post(service).json()["translatedText"] == expected
    assert post(service, beam=None).json()["translatedText"] == expected
    assert post(service, beam=3).json()["translatedText"] == expected
    assert LibreTranslateAPI(service.address).translate(TEXTS[9], "source", "target") == expected[9]
    wider = post(service, beam=12).json()["translatedText"]
    assert wider == plain.translate(TEXTS, beam=12, length_penalty=0.6)


def test_alternatives_are_fewer_than_the_beam_that_is_used(service):
    found = post(service, alternatives=2).json()
    expected = list(service.translator.translations(TEXTS, n_best=3))
    assert found["translatedText"] == [best.text for best, *_ in expected]
    assert found["alternatives"] == [[other.text for other in others] for _, *others in expected]
    for asked, message in (
        ({"alternatives": 3}, "alternatives must be fewer than the model's beam of 3"),
        ({"alternatives": 5, "beam": 4}, "alternatives must be fewer than the beam of 4"),
    ):
        answer = post(service, **asked)
        assert (answer.status_code, answer.json()) == (400, {"error": message})
    assert post(service, alternatives=3, beam=4).status_code == 200


def test_what_the_model_asks_for_can_be_read(service):
    assert httpx.get(f"{service.address}/decoding").json() == {
        "beam": 3, "length_penalty": 0.6, "split": 0, "recase": False, "languages": []
    }  # fmt: skip


def test_a_model_that_asks_for_more_than_the_service_allows_is_not_served():
    asking = pipeline_of(translator(), decoding=DecodingConfig(beam=9))
    with pytest.raises(ValueError, match=r"^mine asks for a beam of 9, and a service allows 8$"):
        application.create(asking, None, ServingConfig(most_beam=8))
