"""What goes wrong is said kindly, in the server's own words, with what to do about it."""

from __future__ import annotations

import pytest

from chat_page import ChatPage
from scripted_gateway import PAUSE, BreakOff, Refusal, ScriptedGateway

UNDRAWN = """return [...document.querySelectorAll(".icon > use")]
    .filter((use) => use.checkVisibility() && use.getBBox().width === 0).length"""


@pytest.mark.parametrize(
    ("status", "title"),
    [
        (400, "The request was refused"),
        (404, "There is no such model"),
        (413, "The conversation is too large"),
        (429, "Too many requests for now"),
        (500, "The gateway answered with status 500"),
        (503, "No server can take the request now"),
    ],
)
def test_refusals(page: ChatPage, gateway: ScriptedGateway, status: int, title: str) -> None:
    gateway.answers = [Refusal(status, "subject 5: at most 3; send fewer.", {"Retry-After": "7"}), ["Fine."]]
    page.ask("Hello")
    page.wait_for_end()
    said = page.aside()
    assert title in said
    assert "subject 5: at most 3; send fewer." in said
    assert "wait 7 s" in said
    if status == 503:
        page.shot("refused-light")
    page.click("Try again")
    page.wait(lambda: page.answer() == "Fine.", "the second try")
    assert page.aside() == ""


def test_an_error_within_the_stream_keeps_what_came(page: ChatPage, gateway: ScriptedGateway) -> None:
    gateway.answers = [["So far ", BreakOff("engine: it failed; try again.")]]
    page.ask("Hello")
    page.wait_for_end()
    assert page.answer() == "So far"
    assert "The answer broke off" in page.aside()
    assert "engine: it failed; try again." in page.aside()
    page.reload()
    assert "engine: it failed; try again." in page.aside()


def test_a_stream_that_just_ends_is_not_taken_for_whole(page: ChatPage, gateway: ScriptedGateway) -> None:
    gateway.answers = [["So far ", BreakOff("")]]
    page.ask("Hello")
    page.wait_for_end()
    assert page.answer() == "So far"
    assert "The connection ended before the answer did." in page.aside()


def test_an_answer_of_a_proxy_that_is_no_json(page: ChatPage) -> None:
    page.run("""
        const before = window.fetch;
        window.fetch = (path, options) => String(path).includes("chat")
            ? Promise.resolve(new Response("<h1>Bad gateway</h1>", { status: 502 })) : before(path, options);
    """)
    page.ask("Hello")
    page.wait_for_end()
    assert "status 502" in page.aside()
    assert "<h1>Bad gateway</h1>" in page.aside()


def test_a_server_that_is_down_and_comes_back(page: ChatPage, gateway: ScriptedGateway) -> None:
    page.ask_and_wait("Hello")
    gateway.stop()
    try:
        page.ask("Are you there?")
        page.wait_for_end()
        assert "The gateway does not answer" in page.aside()
        assert "Is it still running?" in page.aside()
        page.wait(lambda: page.one("#connection").get_attribute("data-state") == "away", "the bar to say so")
        assert page.run(UNDRAWN) == 0
        page.shot("server-down-light")
        page.size((360, 740))
        page.prefer(scheme="dark")
        page.shot("server-down-phone-dark")
    finally:
        gateway.start()
    page.wait(lambda: page.one("#connection").get_attribute("data-state") == "ready", "the page to notice")
    page.click("Try again")
    page.wait(lambda: page.answer() == "An answer." and page.aside() == "", "the second try")


def test_a_server_that_dies_in_the_middle(page: ChatPage, gateway: ScriptedGateway) -> None:
    gateway.answers = [["Half ", PAUSE, "whole."]]
    page.ask("Begin")
    page.wait(lambda: page.answer() == "Half", "the text before the pause")
    gateway.stop()
    try:
        page.wait_for_end()
        assert page.answer() == "Half"
        assert "The answer broke off" in page.aside()
    finally:
        gateway.start()


def test_a_gateway_with_no_model(fresh: ChatPage, gateway: ScriptedGateway) -> None:
    gateway.models = []
    fresh.open()
    assert fresh.one("#connection").text == "no model is served"
    assert fresh.one("h1").text == "No model is served yet"
    fresh.write("Hello")
    assert not fresh.named("Send").is_enabled()
    gateway.models = [{"id": "late"}]
    fresh.wait(lambda: fresh.one("h1").text == "Ask late", "the model that came")
    assert fresh.named("Send").is_enabled()


def test_a_gateway_that_asks_for_a_key(fresh: ChatPage, gateway: ScriptedGateway) -> None:
    gateway.key = "sesame"
    fresh.open()
    assert fresh.focused() == "API key"
    fresh.shot("key-light")
    fresh.one("#key").send_keys("wrong\n")
    fresh.wait(lambda: "does not take this key" in fresh.one("#notices").text, "the wrong key to be told")
    fresh.click("Enter another")
    assert fresh.focused() == "API key"
    fresh.one("#key").clear()
    fresh.one("#key").send_keys("sesame\n")
    fresh.wait(lambda: fresh.one("#connection").get_attribute("data-state") == "ready", "the right key to be taken")
    assert fresh.ask_and_wait("Hello") == "An answer."
    fresh.reload()
    assert fresh.ask_and_wait("Again") == "An answer."
    assert fresh.run("return JSON.stringify(localStorage)").count("sesame") == 0


def test_a_key_that_is_taken_back(page: ChatPage, gateway: ScriptedGateway) -> None:
    gateway.key = "sesame"
    page.ask("Hello")
    page.wait_for_end()
    assert "asks for an API key" in page.aside()
    page.wait(lambda: page.all("#settings[open]"), "the settings")
    page.one("#key").send_keys("sesame")
    page.one("#remember-key").click()
    page.click("Use")
    page.click("Try again")
    page.wait(lambda: page.answer() == "An answer.", "the second try")
    assert "sesame" in page.run("return JSON.stringify(localStorage)")
