"""The page of a real gateway, on a real Triton that echoes its prompt at 50 tokens a second."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from selenium.webdriver import Chrome

from build_engines.repository import add_entry
from chat_page import ChatPage
from echo_artifact import make_echo_artifact
from gateway_under_test import GatewayUnderTest, running_gateway
from python_llm.settings import ServingConfig
from server_under_test import running_server
from tests.browser.conftest import SHOTS
from tiny_checkpoint import make_tiny_checkpoint


@pytest.fixture(scope="module")
def served(chrome: Chrome, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayUnderTest]:
    """Serves ``echo``. The browser comes first: without one no server is started."""
    folder = tmp_path_factory.mktemp("served")
    checkpoint = make_tiny_checkpoint(folder / "checkpoint")
    artifact = make_echo_artifact(folder / "engines" / "echo", checkpoint, script={"step_seconds": 0.02})
    add_entry("echo", artifact, folder / "repository", ServingConfig(max_running=8, delivery_share=1.0))
    with (
        running_server(folder / "repository", run_dir=folder / "run") as server,
        running_gateway([server], folder / "gateway.log") as gateway,
    ):
        yield gateway


@pytest.fixture
def real(chrome: Chrome, served: GatewayUnderTest) -> Iterator[ChatPage]:
    page = ChatPage(chrome, f"{served.url}/", SHOTS)
    page.forget()
    page.complaints()
    page.open()
    yield page
    assert page.complaints() == []
    page.forget()


def ask_at_most(page: ChatPage, tokens: int) -> None:
    page.click("Settings")
    page.one("#length").clear()
    page.one("#length").send_keys(str(tokens))
    page.click("Close the settings")


def test_an_answer_of_a_real_server(real: ChatPage, served: GatewayUnderTest) -> None:
    ask_at_most(real, 24)
    assert real.one("h1").text == "Ask echo"
    real.ask("The quick brown fox")
    real.wait(lambda: real.answer() != "" and real.is_answering(), "the first words, before the last")
    real.wait_for_end()
    assert "cut after 24 tokens" in real.aside()
    figures = real.one(".figures").text
    assert "24 tokens" in figures
    assert "tokens/s" in figures
    real.shot("real-answer-light")
    before = real.texts()
    real.reload()
    assert real.texts() == before


def test_stop_frees_the_place_at_the_real_server(real: ChatPage, served: GatewayUnderTest) -> None:
    real.ask("Go on and on")
    real.wait(lambda: real.answer() != "", "the first words")
    assert sum(server["streams"] for server in served.servers().values()) == 1
    real.click("Stop the answer")
    real.wait_for_end()
    assert "Stopped." in real.aside()
    served.wait_until(lambda: all(each["streams"] == 0 for each in served.servers().values()), "the stream to end")


def test_the_servers_own_words_about_a_bad_question(real: ChatPage, served: GatewayUnderTest) -> None:
    ask_at_most(real, 1_000_000)
    real.ask("Hello")
    real.wait_for_end()
    assert "The request was refused" in real.aside()
    assert "1000000" in real.aside().replace(",", "")


def test_markup_in_the_prompt_comes_back_as_text(real: ChatPage) -> None:
    ask_at_most(real, 60)
    attack = "<img src=x onerror='window.hit=1'>"
    real.ask_and_wait(attack)
    assert real.texts()[0][1] == attack
    assert real.run("return window.hit ?? document.querySelector('.message img')") is None


def test_an_operator_on_this_machine_sees_every_model(real: ChatPage) -> None:
    real.click("Models")
    real.wait(lambda: real.all(".model-card"), "the models")
    assert real.named("Unload echo").is_enabled()
    assert "ready" in real.one(".model-card").text
