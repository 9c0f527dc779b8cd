"""How the stores are proven: one contract suite for all, and tests of what each has of its own."""

import pytest

# The suite's assertions live in modules that pytest would not look into by itself.
SUITE = ("building", "contract", "contract_entries", "contract_reads", "differential")
pytest.register_assert_rewrite(*(f"tests.stores.{name}" for name in SUITE))
