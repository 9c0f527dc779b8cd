"""How the stores are tested: one contract suite for all, and tests of what is special to each."""

import pytest

# The suite's assertions live in modules that pytest would not look into by itself.
SUITE = ("builders", "contract", "contract_entries", "contract_reads", "differential")
pytest.register_assert_rewrite(*(f"tests.stores.{name}" for name in SUITE))
