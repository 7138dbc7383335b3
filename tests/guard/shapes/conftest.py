"""The contract that all shapes keep says what differs when it is broken, as tests do."""

import pytest

pytest.register_assert_rewrite("tests.guard.shape_helpers")
