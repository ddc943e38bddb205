"""Everything by keyboard alone, with a focus that is always seen."""

from __future__ import annotations

from selenium.webdriver import Keys

from chat_page import WAIT_SECONDS, ChatPage
from scripted_gateway import PAUSE, ScriptedGateway

FOCUS = """
    const node = document.activeElement;
    const seen = (each) => {
        const look = getComputedStyle(each);
        const outlined = look.outlineStyle !== "none" && parseFloat(look.outlineWidth) >= 2;
        return outlined || look.boxShadow.includes("0px 0px 0px 1px");
    };
    return [node.accessibleName ?? node.ariaLabel ?? node.id, seen(node) || seen(node.closest("form, label") ?? node)];
"""


def tab_to(page: ChatPage, name: str, *, back: bool = False) -> None:
    """Tab until this has the focus; every stop on the way must show that it has it."""
    for _ in range(40):
        page.press(*([Keys.SHIFT] if back else []), Keys.TAB)
        place, seen = page.run(FOCUS)
        assert seen, f"no visible focus on {place or page.focused()!r}"
        if page.focused() == name:
            return
    raise AssertionError(f"Tab never reaches {name!r}")


def test_a_conversation_by_keyboard_alone(page: ChatPage, gateway: ScriptedGateway) -> None:
    gateway.answers = [["Fine ", PAUSE, "so far."], ["Yes."]]
    page.press("H")
    page.press("i")
    page.press(Keys.SHIFT, Keys.ENTER)
    page.press("Y")
    assert page.one("#prompt").get_attribute("value") == "Hi\nY"
    page.press(Keys.ENTER)
    page.wait(lambda: page.answer() == "Fine", "the text before the pause")
    assert gateway.questions[0]["messages"][-1]["content"] == "Hi\nY"
    page.press(Keys.ESCAPE)
    page.wait_for_end()
    assert gateway.left.acquire(timeout=WAIT_SECONDS), "the server was not left"
    assert page.focused() == "Message"
    tab_to(page, "Answer again", back=True)
    page.press(Keys.ENTER)
    page.wait(lambda: page.answer() == "Yes.", "the second answer")
    assert page.focused() == "Message"
    tab_to(page, "Edit the message", back=True)
    page.press(Keys.ENTER)
    assert page.focused() == "Change the message"
    page.press(Keys.ESCAPE)
    assert page.focused() == "Message"
    tab_to(page, "New conversation", back=True)
    page.press(Keys.SPACE)
    assert page.texts() == []
    assert page.focused() == "Message"


def test_dialogs_take_the_focus_and_give_it_back(page: ChatPage) -> None:
    tab_to(page, "Settings", back=True)
    page.press(Keys.ENTER)
    assert page.all("#settings[open]")
    for _ in range(12):
        page.press(Keys.TAB)
        inside = page.run("return document.activeElement.closest('dialog')?.id ?? document.activeElement.tagName")
        assert inside in ("settings", "BODY")  # the browser's own controls lie between
    page.press(Keys.ESCAPE)
    assert not page.all("dialog[open]")
    assert page.focused() == "Settings"
    tab_to(page, "Models", back=True)
    page.press(Keys.ENTER)
    page.wait(lambda: page.all(".model-card"), "the models")
    tab_to(page, "Use qwen")
    page.press(Keys.ENTER)
    assert page.one("#model").get_attribute("value") == "qwen"
    assert page.focused() == "Message"


def test_the_way_past_the_list_comes_first(page: ChatPage) -> None:
    assert page.run("return document.querySelector('a, button, input, select, textarea').className") == "skip"
    page.run("document.querySelector('.skip').focus()")
    page.settle()
    assert page.one(".skip").rect["y"] >= 0
    page.press(Keys.ENTER)
    assert page.focused() == "Message"


def test_escape_in_a_dialog_does_not_stop_the_answer(page: ChatPage, gateway: ScriptedGateway) -> None:
    gateway.answers = [["Half ", PAUSE, "whole."]]
    page.ask("Begin")
    page.click("Settings")
    page.press(Keys.ESCAPE)
    assert page.is_answering()
    gateway.go()
    page.wait_for_end()
    assert page.answer() == "Half whole."


def test_the_theme_by_arrow_keys(page: ChatPage) -> None:
    page.one("#theme [value='system']").send_keys(Keys.ARROW_RIGHT)
    assert page.run("return document.documentElement.dataset.theme") == "dark"


def test_everything_to_use_has_a_name(page: ChatPage, gateway: ScriptedGateway) -> None:
    gateway.admin = {"smollm2": "ready", "idle": "unavailable"}
    gateway.answers = [["| a |\n|-|\n| b |\n\n```py\nx\n```\n\n[docs](https://example.org) and - [ ] task"]]
    page.ask_and_wait("Hello")
    for opener in (None, "Settings", "Models"):
        if opener:
            page.click(opener)
        if opener == "Models":
            page.wait(lambda: page.all(".model-card"), "the models")
        nodes = page.cdp("Accessibility.getFullAXTree")["nodes"]
        roles = {
            "button",
            "textbox",
            "combobox",
            "link",
            "slider",
            "checkbox",
            "radio",
            "spinbutton",
            "dialog",
            "region",
        }
        found = [n for n in nodes if not n["ignored"] and n.get("role", {}).get("value") in roles]
        assert found
        unnamed = [n["role"]["value"] for n in found if not n.get("name", {}).get("value")]
        assert unnamed == []
        page.press(Keys.ESCAPE)
