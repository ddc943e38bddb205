"""The KV store's disk under load: its writer is killed, and it fills."""

from __future__ import annotations

import pytest

from tests.soak.store_events import Storing, full_disk, kill_of_the_generator


def test_after_a_kill_known_prompts_come_from_the_disk_and_nothing_stale_is_there(storing_server: Storing) -> None:
    print(kill_of_the_generator(storing_server, seed=1))


def test_a_full_disk_ends_writing_and_no_request(storing_server: Storing) -> None:
    if storing_server.no_disk:
        pytest.skip(storing_server.no_disk)
    print(full_disk(storing_server, seed=2))
