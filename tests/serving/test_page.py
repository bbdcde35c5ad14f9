"""The page, in a real browser, with the real service behind it."""

import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")
uvicorn = pytest.importorskip("uvicorn")
playwright = pytest.importorskip("playwright.sync_api")

from playwright.sync_api import BrowserContext, Page, Request, Route, expect  # noqa: E402

from bytenet import Bytes, Pipeline  # noqa: E402
from bytenet.evaluation.explanation import words  # noqa: E402
from bytenet.serving import application  # noqa: E402
from bytenet.serving.config import ServingConfig  # noqa: E402
from tests.pipelines import language_model, pipeline_of, translator  # noqa: E402

LONG = 20_000  # ms; in vain only where something is wrong


@cache  # when first asked for: the tests' device is known by then
def models() -> tuple[Pipeline, Pipeline]:
    """A translator and a language model."""
    return pipeline_of(translator()), pipeline_of(language_model(Bytes()), Bytes())


@contextmanager
def serving(*, port: int = 0, translates: bool = True, **limits: Any) -> Iterator[str]:
    """The address of a service in a thread."""
    app = application.create(models()[0] if translates else None, models()[1], ServingConfig(**limits))
    listening = socket.create_server(("127.0.0.1", port))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", access_log=False, ws="none"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with serving() as address:
        yield address


@pytest.fixture(scope="module")  # not of the session: other tests in this process may run event loops of their own
def browser() -> Iterator[BrowserContext]:
    with playwright.sync_playwright() as driver:
        names = ("chromium", "chromium-browser", "google-chrome")
        found = [Path(driver.chromium.executable_path), *map(Path, filter(None, map(shutil.which, names)))]
        program = next(filter(Path.exists, found), None)
        if program is None:
            pytest.skip("no chromium")
        browser = driver.chromium.launch(executable_path=program)
        context = browser.new_context()
        context.set_default_timeout(LONG)
        expect.set_options(timeout=LONG)
        yield context
        browser.close()


@pytest.fixture
def expected() -> list[str]:
    """What a test lets the browser complain about."""
    return []


@pytest.fixture
def page(browser: BrowserContext, expected: list[str]) -> Iterator[Page]:
    """A fresh window; at the end nobody has complained, about the page's own policy for one."""
    page, complaints = browser.new_page(), []
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.route("**/explain", explain)
    yield page
    page.close()
    assert [complaint for complaint in complaints if not any(one in complaint for one in expected)] == []


def explain(route: Route) -> None:
    """Each word is made of the one at its place, half as much of the one before, and a little of the next before."""
    asked = route.request.post_data_json
    source, target = (words(asked[name]) for name in ("source", "target"))
    outputs = [*target, "</s>"]
    shares = {0: 0.4, 1: 0.2, 2: 0.05}
    by_source = [[shares.get(j - i, 0.0) for j in range(len(outputs))] for i in range(len(source))]
    route.fulfill(
        json={"source": source, "target": target, "outputs": outputs, "by_source": by_source, "by_target": []}
    )


def echo(route: Route) -> None:
    """Instead of a translation, the text in capitals."""
    texts = [text.upper() for text in route.request.post_data_json["q"]]
    route.fulfill(json={"translatedText": texts, "alternatives": [[] for _ in texts]})


def becomes(page: Page, expression: str, value: Any) -> None:
    """Sooner or later, and seen sooner than by `expect`, which looks in steps of up to a second."""
    with suppress(playwright.TimeoutError):
        page.wait_for_function(f"value => JSON.stringify({expression}) === JSON.stringify(value)", arg=value)
    assert page.evaluate(expression) == value


def shows(page: Page, *lines: str) -> None:
    becomes(page, "[...document.querySelectorAll('#target p')].map(line => line.textContent)", list(lines))


def says(page: Page, message: str) -> None:
    becomes(page, "document.querySelector('#status').textContent", message)


def holds(page: Page, text: str) -> None:
    becomes(page, "document.querySelector('#text').value", text)


def translation(text: str) -> list[str]:
    """And the alternatives."""
    ((best, *others),) = models()[0].translations([text], beam=12, n_best=4)
    return [best.text, *(one.text for one in others)]


def test_what_is_typed_is_translated_line_by_line(page, address):
    page.goto(address)
    page.get_by_label("Text", exact=True).press_sequentially("bad cab\n\nhead ")
    shows(page, translation("bad cab")[0], "", translation("head ")[0])
    page.fill("#source", "")
    shows(page)


def test_alternatives_can_be_chosen(page, address):
    page.goto(address)
    best, *others = translation("bad cab")
    page.fill("#source", "bad cab")
    expect(page.locator("#others li")).to_have_text([other for other in others if other.strip()])
    page.locator("#others button").last.click()
    shows(page, others[-1])
    expect(page.locator("#others li").first).to_have_text(best)


@pytest.mark.parametrize(("own", "asked_for"), [(3, 4), (4, None)])
def test_the_models_own_beam_is_taken_if_alternatives_have_room_in_it(page, address, own, asked_for):
    asked: list[Any] = []
    page.on("request", lambda request: asked.append(request.post_data_json) if "translate" in request.url else None)
    page.route("**/decoding", lambda route: route.fulfill(json={"beam": own}))
    page.route("**/translate", echo)
    page.goto(address)
    page.fill("#source", "one")
    shows(page, "ONE")
    assert asked == [{"q": ["one"], "alternatives": 3} | ({"beam": asked_for} if asked_for else {})]


@pytest.mark.slow
def test_only_lines_that_changed_are_asked_for(page, address):
    asked: list[Any] = []
    page.on("request", lambda request: asked.append(request.post_data_json) if "translate" in request.url else None)
    page.route("**/translate", echo)
    page.goto(address)
    page.fill("#source", "one\ntwo")
    shows(page, "ONE", "TWO")
    page.fill("#source", "one\ntoo")
    shows(page, "ONE", "TOO")
    page.fill("#source", "one\ntwo")
    shows(page, "ONE", "TWO")
    assert [body["q"] for body in asked] == [["one", "two"], ["too"]]


def test_requests_are_given_up_for_later_ones(page, address):
    held: list[Route] = []
    failed: list[Request] = []

    def hold_the_first(route: Route) -> None:
        if held:
            echo(route)
        else:
            held.append(route)

    page.route("**/translate", hold_the_first)
    page.on("requestfailed", lambda request: failed.append(request))
    page.goto(address)
    with page.expect_request("**/translate"):
        page.fill("#source", "early")
    page.fill("#source", "late")
    shows(page, "LATE")
    echo(held[0])
    page.wait_for_timeout(50)
    shows(page, "LATE")
    assert [(one.post_data_json["q"], one.failure) for one in failed] == [(["early"], "net::ERR_ABORTED")]


def test_texts_are_texts_and_no_markup(page, address):
    page.route("**/translate", echo)
    page.goto(address)
    page.fill("#source", "<img src=x> <b>bold</b>")
    shows(page, "<IMG SRC=X> <B>BOLD</B>")
    assert page.locator("main img, main b").count() == 0


def lit(page: Page, kind: str) -> dict[str, float]:
    parts = page.locator(f".{kind}.on").all()
    return {part.text_content(): float(part.evaluate("e => e.style.getPropertyValue('--strength')")) for part in parts}


def test_pointing_at_a_word_lights_what_made_it(page, address):
    page.route("**/translate", echo)
    page.goto(address)
    page.fill("#source", "red green blue.\nother line")
    page.locator(".word", has_text="BLUE").hover()
    page.locator(".label.on").first.wait_for()
    assert lit(page, "label") == {"blue": 1.0, "green": 0.5}  # and not what made the full stop
    assert lit(page, "word") == {"BLUE.": 1.0}
    place = page.locator(".label", has_text="green").bounding_box()  # behind the text box, exactly under its word
    page.mouse.move(place["x"] + place["width"] / 2, place["y"] + place["height"] / 2)
    assert lit(page, "word") == {"GREEN": 1.0, "BLUE.": 0.5}
    page.locator("#source").dispatch_event("pointerleave", {"pointerType": "touch"})  # as after a tap
    assert lit(page, "word") == {"GREEN": 1.0, "BLUE.": 0.5}
    page.locator("h1").hover()
    assert lit(page, "word") == lit(page, "label") == {}


@pytest.mark.slow
def test_what_is_pointed_at_is_explained_before_what_is_typed(page, address):
    held: list[Route] = []
    page.route("**/translate", echo)
    page.route("**/explain", lambda route: held.append(route))
    page.goto(address)
    page.fill("#source", "red green\nother line")
    page.locator(".word", has_text="RED").hover()
    page.wait_for_timeout(600)  # the last line has stood for long enough
    assert [route.request.post_data_json["source"] for route in held] == ["red green"]
    explain(held[0])
    page.locator(".label.on", has_text="red").wait_for()


def test_the_keyboard_walks_through_the_words(page, address):
    page.route("**/translate", echo)
    page.goto(address)
    page.fill("#source", "red green blue")
    shows(page, "RED GREEN BLUE")
    page.locator("#target").focus()
    for _ in range(2):
        page.keyboard.press("ArrowRight")
    becomes(page, "document.querySelector('#made-of').textContent", "GREEN: made of red, green")
    page.keyboard.press("ArrowLeft")
    becomes(page, "document.querySelector('#made-of').textContent", "RED: made of red")


@pytest.mark.slow
@pytest.mark.parametrize(("text", "status"), [("a b", 404), ("a " * 200, 200)])
def test_where_nothing_can_be_explained_pointing_does_nothing(page, address, expected, text, status):
    expected.append("404")
    asked: list[Route] = []
    page.route("**/translate", echo)
    page.route("**/explain", lambda route: (asked.append(route), route.fulfill(status=status, json={"error": "no"})))
    page.goto(address)
    page.fill("#source", text)
    for word in ("first", "last", "first"):
        getattr(page.locator(".word"), word).hover()
        page.wait_for_timeout(20)
    says(page, "")
    assert lit(page, "label") == {}
    assert len(asked) == (status == 404)


def test_tabs_by_keyboard(page, address):
    page.goto(address)
    expect(page.get_by_role("tab", name="Translate")).to_have_attribute("aria-selected", "true")
    expect(page.locator("#source")).to_be_focused()
    page.get_by_role("tab", name="Translate").focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="Write")).to_be_focused()
    expect(page.get_by_role("tabpanel", name="Write")).to_be_visible()
    expect(page.get_by_role("tabpanel", name="Translate")).to_be_hidden()
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    expect(page.get_by_label("A text to continue")).to_be_focused()
    page.reload()
    expect(page.get_by_role("tabpanel", name="Write")).to_be_visible()


@pytest.mark.slow
def test_a_tab_is_there_for_each_model(page, expected):
    expected.append("404")
    with serving(translates=False) as address:
        page.goto(address)
        expect(page.get_by_label("A text to continue")).to_be_visible()
        expect(page.get_by_role("tab")).to_have_count(0)


def test_a_text_is_continued(page, address):
    page.goto(f"{address}#write")
    text = page.get_by_label("A text to continue")
    text.fill("abc")
    page.fill("#length", "30")
    page.fill("#seed", "7")
    text.press("Control+Enter")
    written = "".join(models()[1].generate("abc", length=30, seed=7, temperature=0.8)).replace("\r", "\n")
    holds(page, f"abc{written}")
    expect(page.locator("#text-mirror .written")).to_have_text(written)
    page.get_by_role("button", name="Try another").click()
    other = "".join(models()[1].generate("abc", length=30, seed=8, temperature=0.8)).replace("\r", "\n")
    holds(page, f"abc{other}")


@pytest.mark.slow
def test_writing_can_be_stopped(page, address):
    page.goto(f"{address}#write")
    page.fill("#length", "4096")
    page.get_by_role("button", name="Continue").click()
    expect(page.locator("#text")).not_to_have_value("")
    with page.expect_event("requestfailed") as failed:
        page.get_by_role("button", name="Stop").press("Escape")
    assert failed.value.failure == "net::ERR_ABORTED"
    expect(page.get_by_role("button", name="Continue")).to_be_visible()


HOT = "document.querySelectorAll('#text-mirror .heat').length"


def test_each_character_has_its_surprise(page, address):
    page.goto(f"{address}#write")
    page.get_by_label("Surprise").check()
    page.fill("#text", "aé😀\nb")
    characters = page.locator("#text-mirror .heat")
    becomes(page, HOT, 5)
    bits = [float(one.get_attribute("data-bits")) for one in characters.all()]
    (score,) = models()[1].score(["aé😀\nb"])
    assert sum(bits) == pytest.approx(score.bits)
    expect(page.locator("#total")).to_have_text(f"{score.bits:,.0f} bits, {score.bits / 5:.2f} bits per character")
    strengths = [float(one.evaluate("e => e.style.getPropertyValue('--strength')")) for one in characters.all()]
    assert strengths == pytest.approx([min(one / 8, 1) for one in bits])
    characters.nth(1).hover(force=True)  # it is behind the text box
    expect(page.locator("#tip")).to_contain_text(f"é {bits[1]:.1f} bits")
    page.locator("#text").press("Control+End")
    expect(page.locator("#tip")).to_contain_text(f"b {bits[4]:.1f} bits")
    page.fill("#text", "aé😀x")
    assert characters.count() == 3  # what comes before a change is as surprising as it was
    page.get_by_label("Surprise").uncheck()
    becomes(page, HOT, 0)


@pytest.mark.slow
def test_nothing_is_wider_than_a_phone(page, address):
    page.set_viewport_size({"width": 375, "height": 600})
    page.route("**/translate", echo)
    page.goto(address)
    page.fill("#source", f"{'long ' * 30}\n{'x' * 200}")
    shows(page, "LONG " * 30, "X" * 200)
    width, unseen = "document.scrollingElement.scrollWidth", "e => e.scrollHeight - e.clientHeight"
    assert page.evaluate(width) == 375
    assert page.locator("#source").evaluate(unseen) == 0  # the box grows with its text
    page.get_by_role("tab", name="Write").click()
    page.get_by_label("Surprise").check()
    page.fill("#text", "y" * 300)
    becomes(page, HOT, 300)
    assert page.evaluate(width) == 375


CONTRASTS = """() => {
    const style = getComputedStyle(document.documentElement);
    const luminance = name => {
        const hex = style.getPropertyValue(`--${name}`).slice(1);
        const parts = (hex.length === 3 ? [...hex].map(c => c + c) : hex.match(/../g)).map(c => parseInt(c, 16) / 255);
        const [red, green, blue] = parts.map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    };
    const pairs = [["ink", "paper"], ["ink", "ground"], ["ink", "glow"], ["ink", "heat"], ["muted", "paper"],
                   ["muted", "ground"], ["muted", "track"], ["on-accent", "accent"], ["alarm", "ground"]];
    return Object.fromEntries(pairs.map(([text, behind]) => {
        const [dark, light] = [luminance(text), luminance(behind)].sort((a, b) => a - b);
        return [`${text} on ${behind}`, (light + 0.05) / (dark + 0.05)];
    }));
}"""


def test_texts_stand_out_by_day_and_by_night(page, address):
    page.goto(address)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert {pair: ratio for pair, ratio in page.evaluate(CONTRASTS).items() if ratio < 4.5} == {}  # WCAG, level AA
        is_dark = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0] < 128")
        assert is_dark == (scheme == "dark")


def test_nothing_moves_for_those_who_do_not_want_it(page, address):
    page.emulate_media(reduced_motion="reduce")
    page.goto(address)
    moving = "[...document.querySelectorAll('*')].filter(e => getComputedStyle(e).transitionDuration !== '0s').length"
    assert page.evaluate(moving) == 0


@pytest.mark.slow
def test_a_service_that_comes_back_is_used_again(page, expected):
    expected.append("ERR_CONNECTION_REFUSED")
    with serving() as address:
        page.goto(address)
        page.fill("#source", "bad")
        shows(page, translation("bad")[0])
    page.fill("#source", "bad cab")
    says(page, "The service does not answer; trying again…")
    shows(page, translation("bad")[0])
    expect(page.locator("#target p")).to_have_class("stale")
    with serving(port=int(address.rsplit(":")[-1])):
        shows(page, translation("bad cab")[0])
        says(page, "")
        expect(page.locator("#target p")).to_have_class("")


@pytest.mark.slow
def test_a_busy_service_is_asked_again(page, address, expected):
    expected.append("429")
    answers = iter([429, 429])

    def busy_at_first(route: Route) -> None:
        status = next(answers, None)
        if status is None:
            echo(route)
        else:
            route.fulfill(status=status, headers={"Retry-After": "0"}, json={"error": "busy"})

    page.route("**/translate", busy_at_first)
    page.goto(address)
    page.fill("#source", "text")
    says(page, "The service is busy, trying again…")
    shows(page, "TEXT")
    says(page, "")


@pytest.mark.slow
def test_what_the_service_refuses_is_told(page, expected):
    expected.append("400")
    with serving(most_characters=5) as address:
        page.goto(address)
        page.fill("#source", "bad")
        shows(page, translation("bad")[0])
        place = page.locator("#source").bounding_box()
        page.fill("#source", "bad cab")
        says(page, "A request may have at most 5 characters")
        assert page.locator("#source").bounding_box() == place  # a message moves nothing
        page.fill("#source", "bad")
        says(page, "")


@pytest.mark.slow
def test_a_service_with_keys_asks_for_one(page, expected):
    expected.append("401")
    with serving(api_keys=frozenset({"secret"})) as address:
        page.goto(address)
        key = page.get_by_label("This service needs an API key")
        key.fill("guess")
        key.press("Enter")
        says(page, "The service does not accept this key.")
        key.fill("secret")
        key.press("Enter")
        expect(key).to_be_hidden()
        page.fill("#source", "bad")
        shows(page, translation("bad")[0])
        page.reload()
        expect(page.locator("#source")).to_be_focused()
