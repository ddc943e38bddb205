"""The page loads nothing from elsewhere, and nothing runs that it did not bring."""

from __future__ import annotations

from chat_page import ChatPage
from scripted_gateway import ScriptedGateway

TRIES = """
    const script = document.createElement("script");
    try { script.textContent = "window.hit = 1"; document.body.append(script); } catch {}
    try { document.body.insertAdjacentHTML("beforeend", "<img src=x onerror='window.hit = 1'>"); } catch {}
    await new Promise((done) => setTimeout(() => { // a driver's own script may evaluate, what comes later may not
        try { new Function("window.hit = 1")(); } catch {}
        done();
    }));
    const style = document.createElement("style");
    style.textContent = "body { display: none }";
    document.body.append(style);
    const gone = await fetch("https://example.org/").then(() => "fetched", () => "refused");
    const looks = getComputedStyle(document.body).display;
    style.remove();
    script.remove();
    return [window.hit ?? null, gone, looks];
"""


def test_nothing_else_runs_loads_or_paints(fresh: ChatPage) -> None:
    fresh.open()
    assert fresh.run_module(TRIES) == [None, "refused", "block"]
    assert any("Content Security Policy" in each for each in fresh.complaints())  # those tries, and they alone


def test_all_that_the_page_loads_is_its_own(page: ChatPage, gateway: ScriptedGateway) -> None:
    gateway.answers = [["![picture](https://example.org/i.png) <img src='https://example.org/j.png'>"]]
    page.ask_and_wait("Hello")
    for opener, closer in (("Settings", "Close the settings"), ("Models", "Close the models")):
        page.click(opener)
        page.click(closer)
    loaded = page.run("return performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert any(name.endswith("app.js") for name in loaded)
    assert all(name.startswith(page.url) for name in loaded)
    failed = page.run("return performance.getEntriesByType('resource').filter((e) => e.responseStatus >= 400)")
    assert [entry["name"] for entry in failed if "/static/" in entry["name"]] == []


def test_the_page_works_behind_a_path_of_a_proxy(page: ChatPage) -> None:
    """Every address it asks for is relative to where it is."""
    addresses = page.run("""return [...document.querySelectorAll("[src], [href]")].map((each) =>
        each.getAttribute("src") ?? each.getAttribute("href")).filter((text) => !text.startsWith("#"))""")
    assert addresses
    assert [each for each in addresses if each.startswith(("/", "http"))] == []
