"""Terms with axes of their own: forms that differ in bins meet on common axes."""

from __future__ import annotations

import numpy as np
import pytest

import treeanova
from tests.support.models import terms_on_own_axes
from treeanova.report.tables import RAW, Forms


@pytest.fixture(scope="module")
def both():
    return terms_on_own_axes()


@pytest.fixture(scope="module")
def fx(both):
    return both[0]


@pytest.fixture(scope="module")
def rows(both):
    return both[1]


@pytest.fixture(scope="module")
def forms(fx):
    return Forms({"empirical": fx, "uniform": fx.with_density("uniform"), RAW: fx.raw})


def test_terms_have_axes_of_their_own(fx):
    assert fx.terms["x", "y"].axes[0].thresholds.tolist() == [2.0]
    assert fx.raw.terms["x",].axes[0].thresholds.tolist() == [1.0]
    assert fx.terms["x",].axes[0].thresholds.tolist() == [1.0, 2.0]  # it receives a part of the pair


@pytest.mark.parametrize(
    ("names", "thresholds"), [(("x",), [[1.0, 2.0]]), (("y",), [[1.0, 2.0, 3.0]]), (("x", "y"), [[2.0], [3.0]])]
)
def test_common_axes_have_the_thresholds_of_all_forms(forms, names, thresholds):
    table = forms.common_table(names)
    assert [axis.thresholds.tolist() for axis in table.axes] == thresholds
    assert forms.sizes(names) == tuple(len(own) + 1 for own in thresholds)


@pytest.mark.parametrize("names", [("x",), ("y",), ("x", "y")])
def test_values_on_common_axes_are_those_at_rows(forms, names):
    table = forms.common_table(names)
    cells = np.indices(table.rows.shape).reshape(len(names), -1)
    points = np.column_stack([(axis.examples() - 0.5)[bins] for axis, bins in zip(table.axes, cells, strict=True)])
    points[np.isinf(points)] = 3.5
    for form, fx in forms.by_name.items():
        np.testing.assert_allclose(table.values[form].ravel(), fx.terms[names](points), atol=1e-12)


@pytest.mark.parametrize("names", [("x",), ("y",), ("x", "y")])
def test_rows_and_weights_on_common_axes(forms, rows, names):
    table = forms.common_table(names)
    columns = rows[:, ["xy".index(name) for name in names]]
    bins = [np.searchsorted(axis.thresholds, columns[:, i]) for i, axis in enumerate(table.axes)]
    counts = np.zeros(table.rows.shape)
    np.add.at(counts, tuple(bins), 1 / len(rows))
    np.testing.assert_allclose(table.rows, counts)
    np.testing.assert_allclose(table.weights["empirical"], counts)
    for weights in table.weights.values():
        assert weights.sum() == pytest.approx(1)


def test_the_page_holds_terms_on_axes_of_their_own(fx, rows):
    pytest.importorskip("vl_convert")
    from tests.support.pages import ParsedPage, names_on_page, values_on_page

    data = ParsedPage(treeanova.write_report(fx, rows=rows[:2])).data
    pair = next(term for term in data["terms"] if names_on_page(data, term) == ("x", "y"))
    assert [data["axes"][a]["bounds"] for a in pair["axes"]] == [[2.0], [3.0]]
    expected = fx.terms["x", "y"].values.ravel()
    np.testing.assert_allclose(values_on_page(pair, "empirical") * data["unit"], expected, atol=2 * data["unit"])
    main = next(term for term in data["terms"] if names_on_page(data, term) == ("x",))
    assert data["axes"][main["axes"][0]]["bounds"] == [1.0, 2.0]
    np.testing.assert_allclose(values_on_page(main, "raw") * data["unit"], [1.0, -1.0, -1.0], atol=2 * data["unit"])
