from __future__ import annotations

import json

import numpy as np
import pytest

from tests.model.golden import CASES, FILE, outputs


@pytest.mark.parametrize(("kind", "tokens"), CASES)
def test_outputs_are_as_they_were(kind: str, tokens: str) -> None:
    expected = json.loads(FILE.read_text())[f"{kind}-{tokens}"]
    found = outputs(kind, tokens)
    assert found.keys() == expected.keys()
    for name, values in found.items():
        error = f"{name}: if this was meant, see tests/model/golden.py"
        np.testing.assert_allclose(values, expected[name], rtol=0, atol=1e-5, err_msg=error)
