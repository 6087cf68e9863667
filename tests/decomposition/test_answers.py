"""Tables of terms and shares of variance, against counts of rows and values at rows."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import treeanova
from tests.support.recorded import Recorded
from tests.support.simulated import dependent_rows
from treeanova.data.columns import columns_of

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")

NAMES = ("x0", "x1", "x2")
DATA = dependent_rows()
decompose = functools.partial(treeanova.decompose, density="empirical")


def test_a_table_of_intervals(fx):
    for names in (("x0",), ("x0", "x2")):
        table = fx.table(names)
        assert list(table.columns) == [c for n in names for c in (n, f"{n}_low", f"{n}_high")] + ["value", "weight"]
        assert len(table) == np.prod([fx.grid.sizes[NAMES.index(name)] for name in names])
        assert table["weight"].sum() == pytest.approx(1.0)
        for _, row in table.iterrows():
            held, point = np.ones(300, dtype=bool), np.zeros((1, 3))
            for name in names:
                column = DATA[:, NAMES.index(name)]
                low, high = row[f"{name}_low"], row[f"{name}_high"]
                held &= (column > low) & (column <= high)
                point[0, NAMES.index(name)] = high if np.isfinite(high) else low + 1
                assert str(row[name]).startswith(
                    {-np.inf: ("≤", "<")}.get(low, {np.inf: (">", "≥")}.get(high, ("(", "[")))
                )
            assert row["weight"] == pytest.approx(held.mean())
            assert row["value"] == fx.term_values(point, names)[0]


def test_a_table_of_categories_and_missing_values(mixed):
    _, data, found = mixed
    kinds = found.table("kind")
    assert list(kinds.columns) == ["kind", "value", "weight"]
    kinds["letter"] = kinds["kind"].str.split(" or ").str[0]
    assert set(kinds["letter"]) >= set("uvw")
    for _, row in kinds[kinds["letter"].isin(list("uvw"))].iterrows():
        letter = row["letter"]
        point = data.head(1).assign(kind=pd.Categorical([letter], categories=["u", "v", "w"]))
        assert row["value"] == found.term_values(point, "kind")[0]
        assert row["weight"] == pytest.approx((data["kind"] == letter).mean())
    ages = found.table("age")
    missing = ages[ages["age"].str.endswith("missing")]
    assert len(missing) == 1
    assert missing["value"].item() == found.term_values(data.head(1).assign(age=np.nan), "age")[0]
    assert missing["age"].item() == "missing"
    assert missing["weight"].item() == pytest.approx(data["age"].isna().mean())
    assert np.isnan(missing[["age_low", "age_high"]].to_numpy(dtype=float)).all()
    assert not ages[ages["age"] != "missing"][["age_low", "age_high"]].isna().to_numpy().any()


def test_a_table_of_several_outputs_has_a_value_each(several):
    table = several.table(("x1", "x0"))
    for k, output in enumerate("uvw"):
        np.testing.assert_array_equal(table[f"value_{output}"], several.terms["x0", "x1"].values[..., k].ravel())


@pytest.mark.parametrize("name", ["value", "weight"])
def test_features_may_be_called_as_columns_of_a_table_are(model, name):
    found = decompose(model, DATA, feature_names=[name, "b", "c"], n_jobs=1)
    text = [values for values in columns_of(found.table(name)).values() if isinstance(values[0], str)]
    assert text == [list(found.terms[name].axes[0].labels)]


def test_progress_of_importance_is_told_once(deep_fx):
    fx, first, second = deep_fx.with_density("uniform"), Recorded(), Recorded()
    table = fx.importance(progress=first)
    assert "terms of high order at rows" in first.stages
    assert fx.importance("feature", progress=second) is not table
    assert second.stages == []
    assert list(table["variance"]) == list(deep_fx.with_density("uniform").importance()["variance"])


def test_progress_of_standard_errors_counts_resamples(fx):
    told = Recorded()
    fx.standard_errors(3, progress=told)
    assert told.stages == ["tables before purification", "bootstrap resamples"]
    assert told.calls[-4:] == [("bootstrap resamples", done, 3) for done in range(4)]
