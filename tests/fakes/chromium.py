"""A headless Chromium of the distribution, with its driver."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

__all__ = ["chromium"]

_ABSENT = (
    "{what}: not found on PATH; the browser ring needs Chromium and its driver: "
    "apt-get install chromium chromium-driver, or name them in CHROMIUM and CHROMEDRIVER."
)
_OPTIONS = (
    "--headless=new",
    "--no-sandbox",  # containers run as root
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-proxy-server",
    "--no-first-run",
    "--hide-scrollbars",
)


@contextmanager
def chromium() -> Iterator[webdriver.Chrome]:
    """Until the block ends. Skips where there is none; fails with the same words where BROWSER_REQUIRED is set."""
    browser = _find("CHROMIUM", "chromium", "chromium-browser", "google-chrome")
    driver = _find("CHROMEDRIVER", "chromedriver", "chromium.chromedriver")
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for option in _OPTIONS:
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    chrome = webdriver.Chrome(options=options, service=Service(driver))
    try:
        yield chrome
    finally:
        chrome.quit()


def _find(variable: str, *names: str) -> str:
    for name in (os.environ.get(variable), *names):
        if name and (path := shutil.which(name)):
            return path
    absent = _ABSENT.format(what=names[0])
    if os.environ.get("BROWSER_REQUIRED"):
        pytest.fail(absent)
    pytest.skip(absent)
