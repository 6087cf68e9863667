"""Importance ranks terms by what they do, in one order everywhere."""

from __future__ import annotations

import html
import re

import numpy as np
import pytest

import treeanova
from treeanova.decomposition.importance import strongest_first
from treeanova.views.look import NEGATIVE_SHARE, negative_share_words
from treeanova.views.summary import headline, html_summary, standings

pd = pytest.importorskip("pandas")
xgboost = pytest.importorskip("xgboost")

from tests.diamonds import NAMES, diamonds  # noqa: E402  needs pandas

ROWS, PRICE = diamonds()


@pytest.fixture(scope="module")
def model():
    return xgboost.XGBRegressor(n_estimators=150, max_depth=2, learning_rate=0.2, n_jobs=1).fit(ROWS, PRICE)


@pytest.fixture(scope="module")
def fx(model):
    return treeanova.decompose(model, ROWS, density="empirical", n_jobs=1)


@pytest.fixture(scope="module")
def explained(fx):
    """Values of terms at the rows, by label."""
    found = fx.explain(ROWS)
    return {" × ".join(names): found.values[:, i] for i, names in enumerate(found.terms)}


@pytest.fixture(scope="module")
def expected(explained):
    """Labels by the variance of what the terms add to the rows, largest first."""
    return sorted(explained, key=lambda label: -np.var(explained[label]))


def test_the_copy_has_the_structure_of_the_original(fx, explained):
    """Two strong terms have negative shares, by which they would come last."""
    shares = fx.importance().set_index("term")["share"]
    score = sum(explained.values())
    for name in ("clarity", "color"):
        covariance = np.cov(explained[name], score, bias=True)[0, 1]
        assert shares[name] == pytest.approx(covariance / np.var(score), abs=1e-9)
    assert set(shares.sort_values().index[:2]) == {"clarity", "color"}
    assert shares["clarity"] < -0.02


def test_terms_that_oppose_others_are_not_buried(fx, model, expected):
    table = fx.importance()
    assert list(table["term"]) == expected
    ranks = {name: rank for rank, name in enumerate(table["term"], start=1)}
    assert max(ranks["clarity"], ranks["color"]) <= 6
    by_feature = list(fx.importance("feature")["feature"])
    contributions = model.get_booster().predict(xgboost.DMatrix(ROWS), pred_contribs=True)[:, :-1]
    by_shap = [NAMES[j] for j in np.argsort(-np.abs(contributions).mean(axis=0))]
    assert set(by_feature[:6]) == set(by_shap[:6])
    assert abs(by_feature.index("clarity") - by_shap.index("clarity")) <= 1


def test_without_a_term_the_squared_error_grows_by_its_own_variance(fx, explained):
    """What the order means, on the rows that the model was fitted to."""
    table = fx.importance().set_index("term")
    score = fx.decision_function(ROWS)
    error = np.mean((PRICE - score) ** 2)
    for name in expected_mains(table):
        grown = np.mean((PRICE - score + explained[name]) ** 2) - error
        assert grown == pytest.approx(table.loc[name, "variance"] * np.var(score), rel=0.05)


def expected_mains(table):
    """Main effects strong enough to be measured."""
    return [name for name in table.index if table.loc[name, "order"] == 1 and table.loc[name, "variance"] > 1e-3]


def test_features_rank_by_equal_parts_of_their_terms_variances(fx, explained):
    own = dict.fromkeys(NAMES, 0.0)
    for label, values in explained.items():
        names = label.split(" × ")
        for name in names:
            own[name] += np.var(values) / len(names)
    assert list(fx.importance("feature")["feature"]) == sorted(own, key=lambda name: -own[name])


def test_ranks_of_comparisons_are_the_same(fx, expected):
    ranks = treeanova.compare({"one": fx, "raw": fx.raw}).ranks.set_index("term")["one"]
    assert [ranks[label] for label in expected] == list(range(1, len(expected) + 1))


def test_words_and_the_notebook_have_the_same_order(fx, expected):
    text = html_summary(fx)
    shown = re.findall(r'<tr><td style="text-align:left">([^<]+)</td>', text)
    assert [html.unescape(label) for label in shown] == expected[:10]
    assert html.escape(NEGATIVE_SHARE) in text
    ranking = standings(fx)["score"]
    assert [term.label for term in ranking] == expected
    interaction = next(label for label in expected if "×" in label)
    assert f"the strongest interaction is {interaction} (" in headline(ranking)


def test_plots_have_the_same_order_and_show_opposing_terms(fx, expected):
    plt = pytest.importorskip("matplotlib.pyplot")
    from treeanova import plot

    ax = plot.importance(fx, k=8)
    ax.figure.canvas.draw()
    assert [tick.get_text() for tick in ax.get_yticklabels()][:7] == expected[:7]
    row = expected.index("clarity")
    solid, hatched = ax.containers
    assert solid.patches[row].get_width() > 0
    assert hatched.patches[row].get_width() < 0
    assert hatched.patches[row].get_x() == 0
    words = [text.get_text() for text in ax.figure.legends[0].get_texts()]
    assert words == [
        "own variance",
        "covariance with other terms",
        "share (their sum)",
        "below 0: opposes other terms",
    ]
    _, given = plt.subplots()
    assert plot.importance(fx, k=8, ax=given).get_legend() is not None
    titles = [panel.get_title() for panel in plot.grid(fx, k=6)]
    assert [re.fullmatch(r"\d+\. (.+?)   .*", title).group(1) for title in titles] == expected[:6]
    plt.close("all")


def test_the_command_line_has_the_same_order_and_a_foot_line(fx, expected):
    answers = pytest.importorskip("treeanova.cli.answers")
    found = answers.summary(fx, "model") | {"files": {}}
    assert [row["term"] for row in found["terms"]] == expected
    text = answers.explained(fx, found, 8)
    assert re.findall(r"^(\S.*?)  +[\d.]+ %", text, flags=re.MULTILINE) == expected[:8]
    assert NEGATIVE_SHARE in text
    none_shown = answers.explained(fx, found, 1)
    assert NEGATIVE_SHARE not in none_shown


def test_equal_ones_stay_as_they_come():
    assert strongest_first(np.array([1.0, 3.0, 1.0, 3.0, -0.0, 0.0])) == [1, 3, 0, 2, 4, 5]


@pytest.mark.parametrize(("shares", "is_shown"), [([0.5, -0.001], True), ([0.5, -1e-6], False), ([], False)])
def test_negative_shares_are_explained_where_they_are_shown(shares, is_shown):
    assert bool(negative_share_words(shares)) is is_shown
