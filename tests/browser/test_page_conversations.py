"""Conversations are kept in the browser: several of them, over reloads, while one is answered."""

from __future__ import annotations

from chat_page import DESKTOP, ChatPage
from scripted_gateway import PAUSE, ScriptedGateway


def test_after_a_reload_the_conversation_is_still_there(page: ChatPage, gateway: ScriptedGateway) -> None:
    page.choose_model("qwen")
    page.ask_and_wait("Remember this")
    before = page.texts()
    page.reload()
    assert page.texts() == before == [("user", "Remember this"), ("assistant", "An answer.")]
    assert page.one("#model").get_attribute("value") == "qwen"
    assert "2 tokens" in page.one(".figures").text
    page.ask_and_wait("And this")
    assert len(gateway.questions[-1]["messages"]) == 3


def test_a_reload_in_the_middle_keeps_what_had_come(page: ChatPage, gateway: ScriptedGateway) -> None:
    gateway.answers = [["Half ", PAUSE, "whole."], ["Whole."]]
    page.ask("Begin")
    page.wait(lambda: page.answer() == "Half", "the text before the pause")
    page.reload()
    assert page.answer() == "Half"
    assert "left before the answer ended" in page.aside()
    assert not page.is_answering()
    page.click("Answer again")
    page.wait(lambda: page.answer() == "Whole.", "the whole answer")


def test_several_conversations(page: ChatPage) -> None:
    page.ask_and_wait("The first of them")
    page.click("New conversation")
    assert page.texts() == []
    assert page.focused() == "Message"
    page.ask_and_wait("The second of them")
    assert page.titles() == ["The second of them", "The first of them"]
    page.click("The first of them")
    assert page.texts()[0] == ("user", "The first of them")
    assert page.one("[aria-current='true']").text == "The first of them"
    assert page.chrome.title == "The first of them · triton-llm"
    page.reload()
    assert page.texts()[0] == ("user", "The first of them")
    page.shot("conversations-light")


def test_a_conversation_without_messages_is_not_kept(page: ChatPage) -> None:
    page.click("New conversation")
    page.click("New conversation")
    assert page.titles() == []


def test_deleting_can_be_undone(page: ChatPage) -> None:
    page.ask_and_wait("Keep me")
    page.click("Delete “Keep me”")
    assert page.titles() == []
    assert page.texts() == []
    page.click("Undo")
    assert page.titles() == ["Keep me"]
    assert page.texts()[0] == ("user", "Keep me")
    page.click("Delete “Keep me”")
    page.reload()
    assert page.titles() == []


def test_an_answer_goes_on_while_another_conversation_is_read(page: ChatPage, gateway: ScriptedGateway) -> None:
    gateway.answers = [["Slow ", PAUSE, "answer."], ["Quick."]]
    page.ask("First")
    page.wait(lambda: page.answer() == "Slow", "the text before the pause")
    page.click("New conversation")
    assert not page.is_answering()
    assert page.ask_and_wait("Second") == "Quick."
    assert page.all(".conversation.answering")
    gateway.go()
    page.wait(lambda: not page.all(".conversation.answering"), "the first answer to end")
    assert page.answer() == "Quick."
    page.click("First")
    assert page.answer() == "Slow answer."


def test_deleting_what_is_being_answered_ends_it(page: ChatPage, gateway: ScriptedGateway) -> None:
    gateway.answers = [["Half ", PAUSE, "whole"]]
    page.ask("Begin")
    page.wait(lambda: page.answer() == "Half", "the text before the pause")
    page.click("Delete “Begin”")
    assert gateway.left.acquire(timeout=60), "the server was not left"
    assert page.titles() == []
    assert not page.is_answering()
    page.reload()
    assert page.titles() == []


def test_a_new_conversation_is_asked_as_the_last_one(page: ChatPage, gateway: ScriptedGateway) -> None:
    page.choose_model("qwen")
    page.click("Settings")
    page.one("#system").send_keys("Be brief.")
    page.click("Close the settings")
    page.reload()
    page.ask_and_wait("Hello")
    assert gateway.questions[0]["model"] == "qwen"
    assert gateway.questions[0]["messages"][0] == {"role": "system", "content": "Be brief."}


def test_another_tab_is_not_overwritten(page: ChatPage) -> None:
    page.ask_and_wait("Of this tab")
    here = page.chrome.current_window_handle
    page.chrome.switch_to.new_window("tab")
    page.size(DESKTOP)
    page.open()
    page.click("New conversation")
    page.ask_and_wait("Of the other tab")
    page.chrome.close()
    page.chrome.switch_to.window(here)
    page.wait(lambda: page.titles() == ["Of the other tab", "Of this tab"], "both in the list")


def test_a_full_storage_is_told(page: ChatPage) -> None:
    page.run("""Storage.prototype.setItem = () => { throw new DOMException("full", "QuotaExceededError") }""")
    assert page.ask_and_wait("Hello") == "An answer."
    assert "storage is full" in page.one("#notices").text


def test_foreign_and_broken_entries_in_the_storage_do_no_harm(page: ChatPage) -> None:
    page.run("""
        localStorage.setItem("triton-llm.conversation.x", "{not json");
        localStorage.setItem("triton-llm.conversation.y", '{"id": 5}');
        localStorage.setItem("triton-llm.open", '"y"');
        localStorage.setItem("triton-llm.theme", '{"a": 1}');
        localStorage.setItem("triton-llm.settings", '"z"');
    """)
    page.reload()
    assert page.titles() == []
    assert page.ask_and_wait("Hello") == "An answer."


def test_without_any_storage_the_page_works_until_it_is_left(fresh: ChatPage) -> None:
    blocked = (
        "Object.defineProperty(window, 'localStorage', { get() { throw new DOMException('no', 'SecurityError') } })"
    )
    script = fresh.cdp("Page.addScriptToEvaluateOnNewDocument", source=blocked)
    try:
        fresh.open()
        assert fresh.ask_and_wait("Hello") == "An answer."
        assert fresh.titles() == ["Hello"]
    finally:
        fresh.cdp("Page.removeScriptToEvaluateOnNewDocument", identifier=script["identifier"])
