"""A blackout added to a running scheduler: it holds at once, survives a kill, and ends when it is removed."""

from __future__ import annotations

import pytest

from evertick import Client
from tests.cli.serving import Scheduler

pytestmark = pytest.mark.slow


def test_a_blackout_is_added_by_a_command_survives_a_kill_and_is_removed(tmp_path):
    (tmp_path / "often.yaml").write_text("schedule: {every: 1s}\nmissed: none\ncommand: 'true'\n", encoding="utf-8")
    settings = '[[blackouts]]\nfrom = "2097-03-06T22:00"\nto = "2097-03-07T04:00"\njobs = ["nobody"]\n'
    (tmp_path / "evertick.toml").write_text(settings, encoding="utf-8")
    first = Scheduler(tmp_path, has_server=True)
    try:
        first.wait_until_said("blackout.unknown", "nobody")
        first.wait_until_said("succeeded", "often")
        added = first.data("blackout", "add", "--for", "2h", "--job", "often", "--reason", "Network")["blackout"]
        first.wait_until(lambda: first.data("status", "often")["status"] == "paused")
    finally:
        first._process.kill()
        first.stop()
    again = Scheduler(tmp_path, has_server=True)
    try:
        again.wait_until_said("job from")
        known, declared = again.data("blackout", "list")["items"]
        assert (declared["origin"], declared["jobs"]) == ("settings", ["nobody"])
        assert (known["id"], known["state"], known["reason"]) == (added["id"], "active", "Network")
        assert again.data("status", "often")["status"] == "paused"
        ran = len(again.data("history", "often", "--state", "succeeded", "-n", "1000")["items"])
        preview = again.run("blackout", "remove", added["id"], "--dry-run")
        assert "often" in preview
        token = tmp_path / ".evertick" / "token"
        with Client(again.server_url, token_file=token) as client:
            assert client.remove_blackout(added["id"]).blackout.state == "over"
        again.wait_until(
            lambda: len(again.data("history", "often", "--state", "succeeded", "-n", "1000")["items"]) > ran
        )
        skipped = again.data("history", "often", "--reason", "paused")["items"]
        assert skipped
        assert all("Network" in one["detail"] for one in skipped)
        assert again.data("verify")["is_sound"]
    finally:
        again.stop()
