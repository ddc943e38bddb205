"""The chat page in a browser, by what its reader sees and does."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver import ActionChains, Chrome, Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import Select, WebDriverWait

__all__ = ["DESKTOP", "PHONE", "ChatPage"]

WAIT_SECONDS = 60.0  # only catches hangs
DESKTOP = (1280, 820)
PHONE = (360, 740)

Seen = TypeVar("Seen")


class ChatPage:
    """``shots``: the folder of the screenshots."""

    def __init__(self, chrome: Chrome, url: str, shots: Path) -> None:
        self.chrome = chrome
        self.url = url
        self.shots = shots

    # The browser.

    def open(self) -> None:
        self.chrome.get(self.url)
        self.wait(lambda: self.one("#connection").get_attribute("data-state"), "the page to ask for the models")

    def reload(self) -> None:
        self.chrome.refresh()
        self.wait(lambda: self.one("#connection").get_attribute("data-state"), "the page to ask for the models")

    def forget(self) -> None:
        """Empty the browser's storage, and undo what a test set."""
        self.chrome.get("about:blank")
        self.cdp("Storage.clearDataForOrigin", origin=self.url.rstrip("/"), storageTypes="all")
        self.cdp("Emulation.setFocusEmulationEnabled", enabled=True)  # a window that nobody looks at has the focus too
        self.size(DESKTOP)
        self.prefer()

    def size(self, size: tuple[int, int]) -> None:
        """In CSS pixels; a narrow one is a phone."""
        width, height = size
        phone = width < 600
        self.cdp(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=2 if phone else 1,
            mobile=phone,
        )
        self.cdp("Emulation.setTouchEmulationEnabled", enabled=phone)

    def prefer(self, *, scheme: str = "light", motion: str = "no-preference") -> None:
        features = {"prefers-color-scheme": scheme, "prefers-reduced-motion": motion}
        self.cdp(
            "Emulation.setEmulatedMedia", features=[{"name": name, "value": value} for name, value in features.items()]
        )

    def cdp(self, command: str, **arguments: Any) -> Any:
        return self.chrome.execute_cdp_cmd(command, arguments)

    def run(self, script: str, *arguments: Any) -> Any:
        return self.chrome.execute_script(script, *arguments)

    def run_module(self, script: str, *arguments: Any) -> Any:
        """The value of an async function's body; ``arguments`` are its ``arguments``."""
        wrapped = (
            "const done = arguments[arguments.length - 1];"
            f"(async function () {{ {script} }}).apply(null, arguments)"
            ".then((value) => done({ value }), (error) => done({ error: String(error.stack) }));"
        )
        answer = self.chrome.execute_async_script(wrapped, *arguments)
        assert "error" not in answer, answer["error"]
        return answer["value"]

    def settle(self) -> None:
        """Wait until nothing moves any more, endless animations apart."""
        self.run_module(
            "await Promise.allSettled(document.getAnimations().filter(endless).map((a) => a.finished));"
            "function endless(a) { return a.effect.getTiming().iterations !== Infinity; }"
        )

    def shot(self, name: str) -> Path:
        """A screenshot, once nothing moves any more."""
        self.settle()
        self.shots.mkdir(parents=True, exist_ok=True)
        file = self.shots / f"{name}.png"
        file.write_bytes(base64.b64decode(self.cdp("Page.captureScreenshot")["data"]))
        return file

    def complaints(self) -> list[str]:
        """What the browser's console said since the last time, failed requests left out."""
        said = self.chrome.get_log("browser")  # type: ignore[no-untyped-call]
        return [line["message"] for line in said if line["source"] != "network"]

    # Looking.

    def one(self, selector: str) -> WebElement:
        return self.chrome.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector: str) -> list[WebElement]:
        return self.chrome.find_elements(By.CSS_SELECTOR, selector)

    def wait(self, condition: Callable[[], Seen], what: str) -> Seen:
        """The first value of ``condition`` that is true; a node that was just replaced is looked for again."""
        waiting = WebDriverWait(
            self.chrome, WAIT_SECONDS, poll_frequency=0.03, ignored_exceptions=[StaleElementReferenceException]
        )
        return waiting.until(lambda _: condition(), f"waited {WAIT_SECONDS:.0f} s for {what}")

    def named(self, name: str) -> WebElement:
        """The visible button or field of this accessible name."""
        found = [each for each in self.all("button, input, textarea, select") if each.is_displayed()]
        named = [each for each in found if each.accessible_name == name]
        assert named, f"no {name!r} among {[each.accessible_name for each in found]}"
        return named[-1]

    def texts(self) -> list[tuple[str, str]]:
        """The conversation: who, and what is shown of it."""
        script = """return [...document.querySelectorAll(".message")].map((message) =>
            [message.classList[1], message.querySelector(".bubble, .markdown").innerText.trim()])"""
        return [(who, text) for who, text in self.run(script)]

    def answer(self) -> str:
        """The last answer's text, as shown."""
        return next((text for who, text in reversed(self.texts()) if who == "assistant"), "")

    def aside(self) -> str:
        """What is said below the last message: stopped, cut, failed."""
        return " ".join(each.text for each in self.all(".message:last-child :is(.aside, .failure)"))

    def is_answering(self) -> bool:
        return self.one("#stop").is_displayed()

    def titles(self) -> list[str]:
        return [each.text for each in self.all(".conversation-name")]

    # Doing.

    def ask(self, text: str) -> None:
        """Send a message and wait until the answer has begun to be waited for."""
        before = len(self.texts())
        self.write(text)
        self.press(Keys.ENTER)
        self.wait(lambda: len(self.texts()) >= before + 2, "the message to be sent")

    def ask_and_wait(self, text: str) -> str:
        self.ask(text)
        self.wait_for_end()
        return self.answer()

    def wait_for_end(self) -> None:
        self.wait(lambda: not self.is_answering(), "the answer to end")

    def write(self, text: str) -> None:
        """Into the box, as one insertion: a line break is a line break."""
        self.one("#prompt").click()
        self.cdp("Input.insertText", text=text)

    def press(self, *keys: str) -> None:
        """Press keys together, wherever the focus is."""
        chain = ActionChains(self.chrome)
        for key in keys[:-1]:
            chain.key_down(key)
        chain.send_keys(keys[-1])
        for key in reversed(keys[:-1]):
            chain.key_up(key)
        chain.perform()

    def click(self, name: str) -> None:
        self.named(name).click()

    def choose_model(self, name: str) -> None:
        Select(self.one("#model")).select_by_value(name)

    def focused(self) -> str:
        """The accessible name of what has the focus."""
        return self.chrome.switch_to.active_element.accessible_name
