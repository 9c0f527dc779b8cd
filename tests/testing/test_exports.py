"""Which public names the test tools have."""

from __future__ import annotations

import evertick.testing


def test_every_public_name_resolves():
    assert evertick.testing.__all__ == sorted(evertick.testing.__all__)
    assert all(getattr(evertick.testing, name) is not None for name in evertick.testing.__all__)
