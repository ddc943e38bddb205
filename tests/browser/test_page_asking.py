"""Asking, streaming, stopping, asking again."""

from __future__ import annotations

import pytest
from selenium.webdriver import Keys

from chat_page import WAIT_SECONDS, ChatPage
from scripted_gateway import PAUSE, ScriptedGateway


def test_the_first_page_offers_the_models_and_a_place_to_write(page: ChatPage) -> None:
    assert page.one("h1").text == "Ask smollm2"
    assert [option.text for option in page.all("#model option")] == ["smollm2", "qwen"]
    assert page.focused() == "Message"
    assert not page.named("Send").is_enabled()
    page.shot("empty-light")


def test_an_answer_is_shown_while_it_comes(page: ChatPage, gateway: ScriptedGateway) -> None:
    gateway.answers = [["Steps ", "serve ", PAUSE, "many ", "at once."]]
    page.ask("What is batching?")
    page.wait(lambda: page.answer() == "Steps serve", "the text before the pause")
    assert page.is_answering()
    assert page.one(".message.assistant").get_attribute("aria-busy") == "true"
    page.shot("streaming-light")
    gateway.go()
    page.wait_for_end()
    assert page.texts() == [("user", "What is batching?"), ("assistant", "Steps serve many at once.")]
    figures = page.one(".figures").text
    assert "4 tokens" in figures
    assert "first after" in figures
    assert page.one("#announcer").get_attribute("textContent") == "The answer: Steps serve many at once."


def test_the_question_is_what_the_reader_set(page: ChatPage, gateway: ScriptedGateway) -> None:
    page.choose_model("qwen")
    page.click("Settings")
    page.one("#system").send_keys("Be brief.")
    page.run("const t = document.getElementById('temperature'); t.value = 0.2; t.dispatchEvent(new Event('input'))")
    assert page.one("#temperature-value").text == "0.2"
    page.one("#length").clear()
    page.one("#length").send_keys("77")
    page.shot("settings-light")
    page.click("Close the settings")
    page.ask_and_wait("One")
    page.ask_and_wait("Two")
    assert gateway.questions[1] == {
        "model": "qwen",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "One"},
            {"role": "assistant", "content": "An answer."},
            {"role": "user", "content": "Two"},
        ],
        "temperature": 0.2,
        "max_tokens": 77,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_without_a_length_none_is_sent(page: ChatPage, gateway: ScriptedGateway) -> None:
    page.click("Settings")
    page.one("#length").click()
    page.press(Keys.CONTROL, "a")
    page.press(Keys.DELETE)
    page.click("Close the settings")
    page.ask_and_wait("One")
    assert "max_tokens" not in gateway.questions[0]
    assert [message["role"] for message in gateway.questions[0]["messages"]] == ["user"]


def test_stop_ends_the_answer_at_the_server_and_keeps_what_came(page: ChatPage, gateway: ScriptedGateway) -> None:
    gateway.answers = [["Half ", PAUSE, "whole"], ["More."]]
    page.ask("Begin")
    page.wait(lambda: page.answer() == "Half", "the text before the pause")
    page.click("Stop the answer")
    page.wait_for_end()
    assert gateway.left.acquire(timeout=WAIT_SECONDS), "the server was not left"
    assert page.answer() == "Half"
    assert "Stopped." in page.aside()
    assert page.ask_and_wait("Go on") == "More."
    assert [message["content"] for message in gateway.questions[1]["messages"]] == ["Begin", "Half ", "Go on"]


def test_stop_before_the_first_word(page: ChatPage, gateway: ScriptedGateway) -> None:
    gateway.answers = [[PAUSE], ["Yes."]]
    page.ask("Begin")
    page.click("Stop the answer")
    page.wait_for_end()
    assert page.answer() == ""
    assert "Stopped." in page.aside()
    page.ask_and_wait("Again")
    # Chat templates want the roles to alternate.
    assert gateway.questions[1]["messages"] == [{"role": "user", "content": "Begin\n\nAgain"}]


def test_the_last_answer_is_asked_for_again(page: ChatPage, gateway: ScriptedGateway) -> None:
    gateway.answers = [["First."], ["Second."]]
    page.ask_and_wait("Tell me")
    page.click("Answer again")
    page.wait(lambda: page.answer() == "Second.", "the second answer")
    assert page.texts() == [("user", "Tell me"), ("assistant", "Second.")]
    assert gateway.questions[0] == gateway.questions[1]


def test_a_message_is_changed_and_what_followed_is_asked_anew(page: ChatPage, gateway: ScriptedGateway) -> None:
    for text in ("One", "Two"):
        page.ask_and_wait(text)
    page.all("[aria-label='Edit the message']")[0].click()
    field = page.named("Change the message")
    assert field.get_attribute("value") == "One"
    page.shot("editing-light")
    field.clear()
    field.send_keys("Other")
    page.click("Ask this")
    page.wait(lambda: page.texts() == [("user", "Other"), ("assistant", "An answer.")], "the changed conversation")
    assert [message["content"] for message in gateway.questions[-1]["messages"]] == ["Other"]
    assert page.titles() == ["Other"]


def test_a_change_can_be_left(page: ChatPage, gateway: ScriptedGateway) -> None:
    page.ask_and_wait("One")
    page.click("Edit the message")
    page.named("Change the message").send_keys(" more")
    page.click("Leave it")
    assert page.texts()[0] == ("user", "One")
    assert len(gateway.questions) == 1


def test_an_answer_cut_by_its_length_says_so(page: ChatPage, gateway: ScriptedGateway) -> None:
    gateway.finish_reason = "length"
    page.ask_and_wait("Tell me")
    assert "cut after 2 tokens" in page.aside()


def test_a_model_that_says_nothing_is_not_an_empty_place(page: ChatPage, gateway: ScriptedGateway) -> None:
    gateway.answers = [[]]
    page.ask_and_wait("Tell me")
    assert "ended without a word" in page.aside()


@pytest.mark.parametrize("place", ["message", "answer"])
def test_copying(page: ChatPage, gateway: ScriptedGateway, place: str) -> None:
    source = "**bold**, `code`\nand a line"
    gateway.answers = [[source]]
    page.ask_and_wait(source)
    origin = page.url.rstrip("/")
    page.cdp("Browser.grantPermissions", origin=origin, permissions=["clipboardReadWrite"])
    page.click(f"Copy the {place}")
    page.wait(lambda: page.all("[aria-label='Copied']"), "the button to say so")
    assert page.run_module("return navigator.clipboard.readText()") == source


def test_copying_where_the_browser_has_no_clipboard_for_the_page(page: ChatPage) -> None:
    """As over plain HTTP from another machine."""
    page.run("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    page.run("window.copied = ''; addEventListener('copy', () => { copied = getSelection().toString() })")
    page.ask_and_wait("Take this")
    page.click("Copy the message")
    page.wait(lambda: page.all("[aria-label='Copied']"), "the button to say so")
    assert page.run("return copied") == "Take this"


def test_long_answers_are_followed_until_the_reader_scrolls_up(page: ChatPage, gateway: ScriptedGateway) -> None:
    lines = [f"Line {number}\n\n" for number in range(60)]
    gateway.answers = [[*lines, PAUSE, *lines, PAUSE, "The end."]]
    at_end = "const s = document.getElementById('scroll'); return s.scrollHeight - s.scrollTop - s.clientHeight < 4"
    page.ask("Count")
    page.wait(lambda: "Line 59" in page.answer() and page.run(at_end), "the page to follow")
    page.run("document.getElementById('scroll').scrollTop = 0")
    page.wait(lambda: page.one("#to-end").is_displayed(), "the way back to the end")
    gateway.go()
    page.wait(lambda: page.answer().count("Line 59") == 2, "more lines")
    assert page.run("return document.getElementById('scroll').scrollTop") == 0
    page.click("Latest")
    gateway.go()
    page.wait_for_end()
    page.wait(lambda: page.run(at_end), "the page to follow again")
