"""On a phone: nothing wider than the screen, the list slides over, targets that a thumb hits."""

from __future__ import annotations

import pytest
from selenium.webdriver import Keys

from chat_page import PHONE, ChatPage
from scripted_gateway import ScriptedGateway

WIDE = f"""# A heading with averyveryverylongwordthatdoesnotbreak{"x" * 80}

| one | two | three | four | five |
|-|-|-|-|-|
| {" | ".join(["cells that are rather long"] * 5)} |

```python
def f(): return "{"x" * 200}"
```

Then `{"y" * 120}` and https://example.org/{"z" * 100}
"""
OVERFLOW = """
    const width = document.documentElement.clientWidth;
    return [document.documentElement.scrollWidth - width, document.getElementById("scroll").scrollWidth - width];
"""


@pytest.fixture
def phone(fresh: ChatPage) -> ChatPage:
    fresh.size(PHONE)
    fresh.open()
    return fresh


def test_nothing_is_wider_than_the_screen(phone: ChatPage, gateway: ScriptedGateway) -> None:
    assert max(phone.run(OVERFLOW)) <= 0
    phone.shot("empty-phone-light")
    gateway.answers = [[WIDE]]
    phone.ask_and_wait("A wide answer, please " + "w" * 100)
    assert max(phone.run(OVERFLOW)) <= 0
    phone.run("document.getElementById('scroll').scrollTop = 0")
    phone.shot("wide-answer-phone-light")
    for opener in ("Settings: system prompt, temperature, length", None):
        if opener:
            phone.click(opener)
        assert max(phone.run(OVERFLOW)) <= 0
    phone.prefer(scheme="dark")
    phone.shot("settings-phone-dark")


def test_the_list_slides_over_and_goes_again(phone: ChatPage) -> None:
    phone.ask_and_wait("The first")
    assert not phone.one("#new-conversation").is_displayed()
    phone.click("Open the list of conversations")
    assert phone.focused() == "Close the list"
    assert phone.run("return document.getElementById('main').inert") is True
    phone.shot("list-phone-light")
    phone.press(Keys.ESCAPE)
    phone.wait(lambda: not phone.one("#new-conversation").is_displayed(), "the list to go")
    assert phone.focused() == "Open the list of conversations"
    phone.click("Open the list of conversations")
    phone.settle()
    phone.click("New conversation")
    phone.wait(lambda: not phone.one("#new-conversation").is_displayed(), "the list to go")
    assert phone.texts() == []
    assert phone.ask_and_wait("The second") == "An answer."
    phone.click("Open the list of conversations")
    phone.settle()
    phone.click("The first")
    assert phone.texts()[0] == ("user", "The first")


def test_a_hidden_list_is_not_in_the_way_of_the_keyboard(phone: ChatPage) -> None:
    for _ in range(20):
        phone.press(Keys.TAB)
        assert phone.run("return document.activeElement.closest('.sidebar')") is None


def test_targets_are_large_enough_for_a_thumb(phone: ChatPage) -> None:
    phone.ask_and_wait("Hello")
    phone.click("Open the list of conversations")
    buttons = [each for each in phone.all("button, select") if each.is_displayed() and each.size["width"] > 0]
    assert len(buttons) > 8
    small = {each.accessible_name: each.size for each in buttons if min(each.size["height"], each.size["width"]) < 36}
    assert small == {}


def test_what_is_written_is_large_enough_not_to_zoom(phone: ChatPage) -> None:
    assert phone.run("return parseFloat(getComputedStyle(document.getElementById('prompt')).fontSize)") >= 16
