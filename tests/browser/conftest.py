"""One Chromium and one scripted gateway for the whole ring; every test begins with an empty browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver import Chrome

from chat_page import ChatPage
from chromium import chromium
from scripted_gateway import ScriptedGateway

SHOTS = Path(__file__).parents[2] / "run" / "screenshots"


@pytest.fixture(scope="session")
def chrome() -> Iterator[Chrome]:
    with chromium() as running:
        yield running


@pytest.fixture(scope="session")
def running_gateway() -> Iterator[ScriptedGateway]:
    gateway = ScriptedGateway()
    gateway.start()
    yield gateway
    gateway.stop()


@pytest.fixture
def gateway(running_gateway: ScriptedGateway) -> ScriptedGateway:
    running_gateway.reset()
    return running_gateway


@pytest.fixture
def fresh(chrome: Chrome, gateway: ScriptedGateway) -> Iterator[ChatPage]:
    """The page's browser before the page is loaded. No test may make the page's own code complain."""
    page = ChatPage(chrome, gateway.url, SHOTS)
    page.forget()
    page.complaints()
    yield page
    assert page.complaints() == []
    page.forget()


@pytest.fixture
def page(fresh: ChatPage) -> ChatPage:
    """The page, loaded."""
    fresh.open()
    return fresh


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    shots = sorted(SHOTS.glob("*.png"))
    if shots:
        terminalreporter.write_line(f"screenshots: {SHOTS} ({len(shots)})")
