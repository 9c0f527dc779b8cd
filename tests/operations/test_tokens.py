"""Are tokens valid for their purpose and for nothing else?"""

from __future__ import annotations

import threading

import pytest

from evertick.errors import Conflict, InvalidArgument, NotFound, SettingsError
from evertick.model.instant import HOUR
from evertick.operations.tokens import Role, Tokens, read_role
from tests.operations.ledger import MIDNIGHT


@pytest.fixture
def clock():
    return [MIDNIGHT]


@pytest.fixture
def tokens(tmp_path, clock):
    return Tokens(tmp_path, lambda: clock[0])


def test_a_token_is_shown_once_and_known_again(tokens, tmp_path):
    token, text = tokens.create("ci", Role.OPERATOR, by="ann")
    assert tokens.check(text) == token
    assert (token.role, token.created_by) == (Role.OPERATOR, "ann")
    kept = (tmp_path / "tokens.json").read_text()
    assert text not in kept
    assert text.split("_", 2)[2] not in kept
    assert (tmp_path / "tokens.json").stat().st_mode & 0o777 == 0o600


def test_another_text_belongs_to_no_token(tokens):
    _, text = tokens.create("ci", Role.VIEWER)
    for wrong in (text[:-1], text + "x", text.swapcase(), "", "evt_", text.replace("evt", "evx"), "\ud800" * 60):
        assert tokens.check(wrong) is None


def test_a_token_ends_when_its_time_comes(tokens, clock):
    _, text = tokens.create("ci", Role.VIEWER, expires_at=MIDNIGHT + HOUR)
    assert tokens.check(text)
    clock[0] += HOUR
    assert tokens.check(text) is None
    with pytest.raises(InvalidArgument, match="expiry is in the past"):
        tokens.create("late", Role.VIEWER, expires_at=MIDNIGHT)


def test_changes_of_another_process_are_seen_at_once(tokens, tmp_path):
    other = Tokens(tmp_path)
    _, text = other.create("ci", Role.VIEWER)
    assert tokens.check(text)
    other.revoke("ci")
    assert tokens.check(text) is None


def test_two_cannot_have_one_name_and_what_is_not_there_is_not_revoked(tokens):
    tokens.create("ci", Role.VIEWER)
    with pytest.raises(Conflict, match="'ci' already"):
        tokens.create("ci", Role.ADMIN)
    with pytest.raises(NotFound, match="'ci'"):
        tokens.revoke("cd")


@pytest.mark.parametrize("name", ["", " ", "a\nb", "x" * 65, "-a", "a/b"])
def test_a_name_is_a_plain_one(tokens, name):
    with pytest.raises(InvalidArgument, match="invalid token name"):
        tokens.create(name, Role.VIEWER)


def test_the_first_start_makes_one_and_no_other_does(tokens, tmp_path):
    first = tokens.ensure_first()
    assert first is not None
    assert tokens.check(first).role is Role.ADMIN
    assert (tmp_path / "token").read_text().strip() == first == tokens.first()
    assert (tmp_path / "token").stat().st_mode & 0o777 == 0o600
    assert tokens.ensure_first() is None
    assert tokens.check(first).name == "admin"  # it is who a run is cancelled by
    tokens.revoke("admin")
    assert tokens.first() is None
    assert tokens.ensure_first() is None


def test_many_at_once_lose_none(tmp_path):
    threads = [
        threading.Thread(target=Tokens(tmp_path).create, args=(f"t{number}", Role.VIEWER)) for number in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(Tokens(tmp_path).list()) == 12


def test_a_file_that_others_may_read_or_that_is_unreadable_is_refused(tokens, tmp_path):
    _, text = tokens.create("ci", Role.VIEWER)
    (tmp_path / "tokens.json").chmod(0o644)
    with pytest.raises(SettingsError, match="chmod 600"):
        Tokens(tmp_path).check(text)
    (tmp_path / "tokens.json").chmod(0o600)
    (tmp_path / "tokens.json").write_text('{"tokens": [{}]}')
    with pytest.raises(SettingsError, match="is not a valid token file"):
        Tokens(tmp_path).check(text)


def test_roles_are_in_order_and_read_by_name():
    assert Role.VIEWER < Role.OPERATOR < Role.EDITOR < Role.ADMIN
    assert [read_role(str(role)) for role in Role] == list(Role)
    with pytest.raises(InvalidArgument, match="viewer, operator, editor, admin"):
        read_role("root")
