"""The models' view: state, versions, context; loading and unloading where the gateway lets one."""

from __future__ import annotations

from chat_page import ChatPage
from scripted_gateway import Refusal, ScriptedGateway


def cards(page: ChatPage) -> dict[str, str]:
    page.wait(lambda: page.all("#model-list > *") and "Asking" not in page.one("#model-list").text, "the models")
    return {card.find_element("css selector", "h4").text: card.text for card in page.all(".model-card")}


def test_who_may_not_sees_no_buttons(page: ChatPage, gateway: ScriptedGateway) -> None:
    gateway.models = [{"id": "smollm2", "ready": False, "versions": {"1": "READY", "2": "UNAVAILABLE: no weights"}}]
    page.click("Models")
    shown = cards(page)["smollm2"]
    assert "unavailable" in shown
    assert "Version 1: ready" in shown
    assert "Version 2: unavailable, no weights" in shown
    assert "Unload" not in shown


def test_a_model_is_loaded_used_and_unloaded(page: ChatPage, gateway: ScriptedGateway) -> None:
    gateway.admin = {"smollm2": "ready", "qwen": "ready", "idle": "unavailable"}
    page.click("Models")
    assert list(cards(page)) == ["smollm2", "qwen", "idle"]
    assert "Context of 8,192 tokens" in cards(page)["smollm2"]
    page.click("Load idle")
    page.wait(lambda: "Use" in cards(page)["idle"], "the model to be loaded")
    assert gateway.admin["idle"] == "ready"
    page.click("Unload qwen")
    page.wait(lambda: "Load" in cards(page)["qwen"].split("\n"), "the model to be unloaded")
    page.click("Use idle")
    assert page.one("#model").get_attribute("value") == "idle"
    page.wait(lambda: [o.text for o in page.all("#model option")] == ["smollm2", "idle"], "the list to follow")
    page.ask_and_wait("Hello")
    assert gateway.questions[0]["model"] == "idle"


def test_a_load_that_fails_says_why(page: ChatPage, gateway: ScriptedGateway) -> None:
    gateway.admin = {"smollm2": "ready", "idle": "unavailable"}
    gateway.change_refusal = Refusal(400, "model idle: its artifact is gone; build it.")
    page.click("Models")
    cards(page)
    page.click("Load idle")
    page.wait(lambda: "its artifact is gone; build it." in cards(page)["idle"], "the reason")
    page.shot("models-refused-light")


def test_a_conversation_with_a_model_that_is_gone(page: ChatPage, gateway: ScriptedGateway) -> None:
    page.choose_model("qwen")
    page.ask_and_wait("Hello")
    gateway.models = [{"id": "smollm2"}]
    page.reload()
    page.wait(lambda: "qwen (not served)" in [o.text for o in page.all("#model option")], "the list to say so")
    page.choose_model("smollm2")
    page.ask_and_wait("And now")
    assert gateway.questions[-1]["model"] == "smollm2"


def test_models_of_a_gateway_that_is_gone(page: ChatPage, gateway: ScriptedGateway) -> None:
    gateway.models = Refusal(503, "no server has answered yet.")
    page.click("Models")
    page.wait(lambda: "no server has answered yet." in page.one("#model-list").text, "the reason")
