"""Light and dark, by the system or by choice; contrast; reduced motion."""

from __future__ import annotations

import pytest

from chat_page import ChatPage
from scripted_gateway import PAUSE, Refusal, ScriptedGateway

BACKGROUND = "return getComputedStyle(document.body).backgroundColor"

# The contrast (WCAG 2.2) of every visible text with what is behind it, below 4.5.
FAINT = """
    const context = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
    const rgba = (color) => {
        context.clearRect(0, 0, 1, 1);
        context.fillStyle = color;
        context.fillRect(0, 0, 1, 1);
        return [...context.getImageData(0, 0, 1, 1).data];
    };
    const behind = (node) => {
        for (let at = node; at; at = at.parentElement) {
            const color = rgba(getComputedStyle(at).backgroundColor);
            if (color[3] === 255) return color;
        }
        return rgba("white");
    };
    const light = ([r, g, b]) => {
        const linear = (c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
        const [x, y, z] = [r, g, b].map((c) => linear(c / 255));
        return 0.2126 * x + 0.7152 * y + 0.0722 * z;
    };
    const contrast = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
    const faint = [];
    const shown = document.querySelector("dialog[open]") ?? document.body;
    const walk = document.createTreeWalker(shown, NodeFilter.SHOW_TEXT);
    while (walk.nextNode()) {
        const node = walk.currentNode.parentElement;
        if (!walk.currentNode.data.trim() || !node.checkVisibility()) continue;
        if (node.closest(":disabled, .visually-hidden, .skip, option")) continue;
        const ratio = contrast(rgba(getComputedStyle(node).color), behind(node));
        if (ratio < 4.5) faint.push([walk.currentNode.data.trim().slice(0, 40), ratio]);
    }
    return faint;
"""


def faint(page: ChatPage) -> list[tuple[str, float]]:
    page.settle()
    return [(text, ratio) for text, ratio in page.run(FAINT)]


def test_the_system_decides_until_the_reader_does(page: ChatPage) -> None:
    light = page.run(BACKGROUND)
    page.prefer(scheme="dark")
    dark = page.run(BACKGROUND)
    assert light != dark
    page.shot("empty-dark")
    page.one("#theme [value='light']").click()
    assert page.run(BACKGROUND) == light
    page.reload()
    assert page.run(BACKGROUND) == light
    page.one("#theme [value='dark']").click()
    page.prefer(scheme="light")
    page.reload()
    assert page.run(BACKGROUND) == dark
    page.one("#theme [value='system']").click()
    assert page.run(BACKGROUND) == light


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_is_readable(page: ChatPage, gateway: ScriptedGateway, scheme: str) -> None:
    page.prefer(scheme=scheme)
    assert faint(page) == []
    gateway.admin = {"smollm2": "ready", "busy": "loading", "idle": "unavailable"}
    code = 'def f(x=1):  # why\n    return print("text")'
    gateway.answers = [
        [f"# Head\n\n[link](https://e.org) `code`\n\n> quote\n\n```python\n{code}\n```\n\n|a|\n|-|\n|b|"]
    ]
    page.ask_and_wait("Everything, please")
    gateway.answers = [Refusal(503, "busy", {"Retry-After": "2"})]
    page.ask("And an error")
    page.wait_for_end()
    assert faint(page) == []
    page.shot(f"everything-{scheme}")
    page.click("Settings")
    assert faint(page) == []
    page.click("Close the settings")
    page.click("Models")
    page.wait(lambda: page.all(".model-card"), "the models")
    assert faint(page) == []
    page.shot(f"models-{scheme}")


def test_nothing_moves_for_those_who_do_not_want_it(page: ChatPage, gateway: ScriptedGateway) -> None:
    gateway.answers = [["So ", PAUSE, "on."]]
    page.ask("Begin")
    page.wait(lambda: page.answer() == "So", "the text before the pause")
    endless = "return document.getAnimations().filter((a) => a.effect.getTiming().iterations === Infinity).length"
    assert page.run(endless) > 0
    page.prefer(motion="reduce")
    page.wait(lambda: page.run(endless) == 0, "the animations to end")
    gateway.go()
    page.wait_for_end()
