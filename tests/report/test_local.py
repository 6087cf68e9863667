from __future__ import annotations

import pytest

from tests.support.models import boosted_product
from tests.support.pages import ParsedPage, names_on_page
from treeanova.report import write_report

pytest.importorskip("vl_convert")
ensemble = pytest.importorskip("sklearn.ensemble")


def test_rows_add_up_and_appear_only_when_asked_for():
    fx, X = boosted_product()
    data = ParsedPage(write_report(fx, rows=X[:3])).data
    unit = data["unit"]
    for i, outputs in enumerate(data["local"]["explained"]["empirical"]):
        (found,) = outputs
        total = found["intercept"] + sum(units for _, units in found["terms"]) + found["rest"]
        assert total == found["score"]
        assert total * unit == pytest.approx(fx.decision_function(X[i : i + 1])[0], abs=unit)
        for place, units in found["terms"]:
            names = names_on_page(data, data["terms"][place])
            expected = fx.with_density("empirical").term_values(X[i : i + 1], names)
            assert units * unit == pytest.approx(expected[0], abs=unit)
    assert data["local"]["features"][0] == [f"{value:.6g}" for value in X[0]]
    with pytest.raises(ValueError, match="`rows` must be 1 to 100 rows to explain one by one, got 101; pass a few"):
        write_report(fx, rows=X[:101])
