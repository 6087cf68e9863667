from __future__ import annotations

import base64
import hashlib
import html.parser
import itertools
import json
import re
import sys

import numpy as np
import pytest

import treeanova
from treeanova.data.features import Feature, Schema
from treeanova.density.statistics import statistics_of
from treeanova.model.axes import CategoryAxis, IntervalAxis
from treeanova.model.grid import Grid
from treeanova.report import write_report
from treeanova.report.axes import distinct_numbers, millionths, page_axis, window
from treeanova.report.page import as_json
from treeanova.report.tables import bins_of_mains, bins_of_pairs, most_pair_bins, unit_of
from treeanova.views.summary import Standing, columns_of, headline, html_summary, shares_by_order, standings

pytest.importorskip("vl_convert")
load_wine = pytest.importorskip("sklearn.datasets").load_wine
ensemble = pytest.importorskip("sklearn.ensemble")

HOSTILE = ["<script>alert(1)</script>", "</script><!--", "a & b \u2028 \u2029", "{{data}}"]


class Parsed(html.parser.HTMLParser):
    """Scripts, styles, metas and title of a page, as a parser of HTML finds them."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.tags, self.scripts, self.open = [], [], None
        self.title, self.style = "", ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.open = tag
        if tag == "script":
            self.scripts.append((dict(attrs), ""))

    def handle_data(self, data):
        if self.open == "script":
            attrs, text = self.scripts[-1]
            self.scripts[-1] = (attrs, text + data)
        elif self.open == "title":
            self.title += data
        elif self.open == "style":
            self.style += data

    def handle_endtag(self, tag):
        self.open = None

    @property
    def data(self):
        return json.loads(self.scripts[0][1])


def regression(names=("a", "b", "c"), density="auto", n_rows=4000, **options):
    rng = np.random.default_rng(0)
    X = rng.multivariate_normal(np.zeros(3), [[1, 0.6, 0], [0.6, 1, 0], [0, 0, 1]], size=n_rows)
    model = ensemble.GradientBoostingRegressor(max_depth=2, n_estimators=30, random_state=0).fit(
        X, X[:, 0] * X[:, 1] + X[:, 2]
    )
    return treeanova.decompose(model, X, feature_names=list(names), density=density, **options), X


@pytest.fixture(scope="module")
def fx():
    return regression()[0]


@pytest.fixture(scope="module")
def page(fx):
    return Parsed(write_report(fx))


def values_of(term, form, output=0):
    """Values of a term on the page, in whole units: as they stand, or as another form and two faces."""
    stored = term["values"][form]
    if isinstance(stored, list):
        return np.array(stored[output])
    base = np.array(term["values"][stored["base"]][output])
    rows, columns = np.array(stored["rows"][output]), np.array(stored["columns"][output])
    return base + np.add.outer(rows, columns).ravel()


def names_of(data, term):
    return tuple(data["features"][j]["name"] for j in term["features"])


def test_the_page_holds_the_numbers_of_all_tables(fx, page):
    data = page.data
    assert {names_of(data, term) for term in data["terms"]} == set(fx.terms)
    for term in data["terms"]:
        names = names_of(data, term)
        for form, found in {"auto": fx, "uniform": fx.with_density("uniform"), "raw": fx.raw}.items():
            if names in found.terms:
                expected = columns_of(found.table(names))["value"]
                np.testing.assert_allclose(values_of(term, form) * data["unit"], expected, atol=2 * data["unit"])
        if term["order"] == 2:  # forms of a pair differ by faces only: that keeps the page small
            assert isinstance(term["values"]["uniform"], dict)
        positions = [fx.schema.names.index(name) for name in names]
        counts = np.zeros([fx.grid.sizes[j] for j in positions])
        np.add.at(counts, tuple(fx.density.statistics.points().codes[:, j] for j in positions), 1)
        np.testing.assert_allclose(np.array(term["rows"]) / 1e6, counts.ravel() / 4000, atol=1e-6)


def test_the_unit_keeps_six_digits_and_bounds_are_the_models(fx, page):
    data = page.data
    largest = max(np.abs(term.values).max() for form in (fx, fx.raw) for term in form.terms.values())
    assert 1e5 <= largest / data["unit"] < 1e6
    axis = data["axes"][next(term for term in data["terms"] if term["order"] == 1)["axes"][0]]
    assert axis["bounds"] == pytest.approx(fx.grid.axes[axis["feature"]].bounds, rel=1e-5)


def test_shares_and_words_come_from_importance(fx, page):
    data = page.data
    table = columns_of(fx.importance())
    shown = {" × ".join(names_of(data, t)): t["standing"]["auto"][0] for t in data["terms"]}
    assert list(shown) == table["term"]
    ranks, variances, shares, sizes = zip(*shown.values(), strict=True)
    assert list(ranks) == list(range(1, len(shown) + 1))
    assert variances == pytest.approx(table["variance"], abs=1e-6)
    assert shares == pytest.approx(table["share"], abs=1e-6)
    assert sizes == pytest.approx(table["mean_abs"], rel=1e-3)
    assert sum(shares) == pytest.approx(1)
    assert data["densities"] == ["auto", "uniform", "empirical"]
    assert data["scale"]["effect"] == ["change in prediction against the average"]
    assert data["rows"] == 4000
    assert data["local"] is None


def test_moved_is_the_distance_to_the_raw_term(fx, page):
    data = page.data
    pair = next(term for term in data["terms"] if names_of(data, term) == ("a", "b"))
    pure, raw = fx.terms["a", "b"], fx.raw.terms["a", "b"]
    expected = np.sqrt(np.average((pure.values - raw.values) ** 2, weights=pure.weights))
    assert pair["moved"]["auto"] == pytest.approx([expected], rel=1e-5)


def test_policy_allows_exactly_the_scripts_of_the_page(page):
    policy = next(attrs["content"] for tag, attrs in page.tags if attrs.get("http-equiv") == "Content-Security-Policy")
    run = [text for attrs, text in page.scripts if "type" not in attrs]

    def digest(text):
        return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"

    assert len(run) == 2
    assert re.search("script-src ([^;]*);", policy).group(1).split() == [digest(text) for text in run]
    assert re.search("style-src ([^;]*);", policy).group(1) == digest(page.style)
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_nothing_is_fetched(page):
    addresses = [value for _, attrs in page.tags for name, value in attrs.items() if name in {"src", "href", "srcset"}]
    assert addresses == []
    assert "@import" not in page.style
    assert "url(" not in page.style


def test_names_are_data():
    hostile, X = regression(HOSTILE[:3])
    parsed = Parsed(write_report(hostile, title=HOSTILE[0] + HOSTILE[3], rows=X[:1]))
    assert [attrs.get("type") for attrs, _ in parsed.scripts] == ["application/json", None, None]
    assert [feature["name"] for feature in parsed.data["features"]] == HOSTILE[:3]
    assert parsed.title == HOSTILE[0] + HOSTILE[3] == parsed.data["title"]
    assert not set("<>&\u2028\u2029") & set(parsed.scripts[0][1])


def test_json_survives_every_character():
    content = {"".join(map(chr, range(0x20, 0x250))): "\u2028\u2029</script>&amp;<!--\x00"}
    assert json.loads(as_json(content)) == content
    with pytest.raises(ValueError, match="not JSON compliant"):
        as_json(np.nan)


def test_rows_add_up_and_appear_only_when_asked_for():
    fx, X = regression()
    data = Parsed(write_report(fx, rows=X[:3])).data
    unit = data["unit"]
    for i, outputs in enumerate(data["local"]["explained"]["empirical"]):
        (found,) = outputs
        total = found["intercept"] + sum(units for _, _, units in found["terms"]) + found["rest"]
        assert total == found["score"]
        assert total * unit == pytest.approx(fx.decision_function(X[i : i + 1])[0], abs=unit)
        strongest, order, units = found["terms"][0]
        expected = fx.with_density("empirical").term_values(X[i : i + 1], strongest.split(" × "))
        assert (order, units * unit) == (strongest.count(" × ") + 1, pytest.approx(expected[0], abs=unit))
    assert data["local"]["features"][0] == [f"{value:.6g}" for value in X[0]]
    with pytest.raises(ValueError, match="`rows` must be 1 to 100 rows to explain one by one, got 101; pass a few"):
        write_report(fx, rows=X[:101])


def test_every_output_has_its_numbers():
    wine = load_wine()
    X, y = wine.data[:, :3], wine.target
    model = ensemble.GradientBoostingClassifier(max_depth=2, n_estimators=5, random_state=0).fit(X, y)
    fx = treeanova.decompose(model, X)
    data = Parsed(write_report(fx, densities=[])).data
    assert data["densities"] == ["auto"]
    assert data["scale"]["response"] == "probability"
    for term in data["terms"]:
        for k, output in enumerate(fx.schema.outputs):
            expected = columns_of(fx.table(names_of(data, term)))[f"value_{output}"]
            np.testing.assert_allclose(values_of(term, "auto", k) * data["unit"], expected, atol=2 * data["unit"])
    assert [len(found) for found in data["headlines"].values()] == [3]


def test_terms_beyond_the_limit_are_listed_without_tables(fx):
    data = Parsed(write_report(fx, max_terms=2)).data
    assert [("values" in term) for term in data["terms"]] == [True, True] + [False] * (len(fx.terms) - 2)
    assert all(term["standing"]["auto"] for term in data["terms"])


def test_three_features_bring_their_strongest_cells():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 3))
    model = ensemble.GradientBoostingRegressor(max_depth=3, n_estimators=3, random_state=0).fit(X, (X > 0).all(axis=1))
    fx = treeanova.decompose(model, X, density="empirical")
    data = Parsed(write_report(fx)).data
    term = next(term for term in data["terms"] if term["order"] == 3)
    table = columns_of(fx.table(("x0", "x1", "x2")))
    whole = set(
        zip(table["x0"], table["x1"], table["x2"], np.rint(np.array(table["value"]) / data["unit"]), strict=True)
    )
    assert set(zip(*term["cells"], term["values"]["empirical"][0], strict=True)) <= whole
    strength = np.abs(table["value"]) * np.sqrt(table["weight"])
    assert term["n_cells"] == len(strength)
    shown = np.abs(term["values"]["empirical"][0]) * data["unit"] * np.sqrt(np.array(term["rows"]) / 1e6)
    np.testing.assert_allclose(shown, np.sort(strength)[::-1][: len(shown)], atol=data["unit"])


def test_deep_models_list_what_has_no_table():
    xgboost = pytest.importorskip("xgboost")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 5))
    model = xgboost.XGBRegressor(n_estimators=20, max_depth=5, n_jobs=1).fit(X, X[:, 0] * X[:, 1] * X[:, 2] + X[:, 3])
    fx = treeanova.decompose(model, X)
    ranking = columns_of(fx.importance())
    tables = {" × ".join(names) for names in fx.terms}
    assert tables < set(ranking["term"])
    data = Parsed(write_report(fx, rows=X[:2])).data
    shown = {" × ".join(names_of(data, t)) if "features" in t else t["label"]: t for t in data["terms"]}
    assert shown.keys() == set(ranking["term"])
    assert {label for label, term in shown.items() if "values" in term} == tables
    for label, share in zip(ranking["term"], ranking["share"], strict=True):
        assert shown[label]["standing"]["auto"][0][2] == pytest.approx(share, abs=1e-6)
    for i, (found,) in enumerate(data["local"]["explained"]["auto"]):
        assert found["score"] * data["unit"] == pytest.approx(fx.decision_function(X[i : i + 1])[0], abs=data["unit"])
    assert "at rows only" in " ".join(entry["title"] for entry in data["checks"]["auto"]["entries"])


def test_large_tables_are_merged_by_weighted_means():
    rng = np.random.default_rng(0)
    axis = IntervalAxis("x", 200, np.arange(199.0))
    masses = rng.dirichlet(np.ones(201))
    made = page_axis(axis, 0, masses, 16)
    assert made.is_merged
    assert made.size <= 17
    assert made.plain["missing"] == made.size - 1
    assert (made.groups[:-1] != made.groups[-1]).all()  # missing values stay alone
    values = rng.normal(size=201)
    edges = [-np.inf, *made.plain["bounds"], np.inf]
    for g, (low, high) in enumerate(itertools.pairwise(edges)):
        inside = np.flatnonzero((np.arange(200) <= high) & (np.arange(200) > low))
        assert made.means[g] @ values == pytest.approx(np.average(values[inside], weights=masses[inside]))
        assert made.sums[g] @ masses == pytest.approx(masses[inside].sum())
    assert made.means @ np.ones(201) == pytest.approx(1)


def test_rare_categories_become_one():
    axis = CategoryAxis("x", 7, tuple("abcdef"), 6)
    made = page_axis(axis, 0, np.array([0.1, 0.3, 0.01, 0.02, 0.4, 0.03, 0.04, 0.1]), 4)
    assert made.plain["labels"] == ["a", "b", "e", "3 other categories", "unseen", "missing"]
    assert made.plain["extra"] == 2


def test_merged_pairs_say_so_and_keep_their_total():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 2))
    model = ensemble.HistGradientBoostingRegressor(max_leaf_nodes=4, max_depth=2, max_iter=400, random_state=0)
    fx = treeanova.decompose(model.fit(X, X[:, 0] * X[:, 1]), X)
    data = Parsed(write_report(fx)).data
    pair = next(term for term in data["terms"] if term["order"] == 2)
    whole = fx.terms["x0", "x1"]
    assert pair["merged"]
    assert len(pair["rows"]) < whole.weights.size
    assert sum(pair["rows"]) == pytest.approx(1e6, abs=len(pair["rows"]))
    masses = [
        np.bincount(c, minlength=s) / 3000
        for c, s in zip(fx.density.statistics.points().codes.T, fx.grid.sizes, strict=True)
    ]
    groups = [group_of_bins(fx.grid.axes[j], data["axes"][a]) for j, a in enumerate(pair["axes"])]
    shown = values_of(pair, "auto").reshape([group.max() + 1 for group in groups]) * data["unit"]
    for i, j in itertools.product((0, 3, 10, 20), (0, 7, 11, 19)):
        block = np.ix_(groups[0] == i, groups[1] == j)
        weights = np.multiply.outer(masses[0][groups[0] == i], masses[1][groups[1] == j])
        assert shown[i, j] == pytest.approx(np.average(whole.values[block], weights=weights), abs=2 * data["unit"])


def group_of_bins(axis, plain):
    """The group of each bin of an axis, from the bounds on the page; missing values last."""
    ends = np.array([float(f"{bound:.6g}") for bound in axis.bounds])
    groups = np.append(np.searchsorted(plain["bounds"], ends), len(plain["bounds"]))
    return np.append(groups, groups[-1] + 1) if axis.size > axis.n_regular else groups


def test_densities_that_need_rows_are_named_with_the_reason(fx, tmp_path):
    fx.save(tmp_path / "fx.tav")
    loaded = treeanova.load(tmp_path / "fx.tav")
    data = Parsed(write_report(loaded)).data
    assert data["rows"] is None
    assert "uniform" in data["densities"]
    assert "pass the rows that define it" in data["missing_densities"]["empirical"]


def test_a_part_of_the_terms_says_that_it_is_one(fx):
    data = Parsed(write_report(fx.drop("c"))).data
    assert data["n_all_terms"] == len(fx.terms)
    assert data["checks"]["auto"]["entries"][0]["title"] == "Some terms only"


def test_path_and_string(fx, tmp_path):
    target = tmp_path / "report.html"
    target.write_text("old", encoding="utf-8")
    assert write_report(fx, str(target)) == target
    assert target.read_text(encoding="utf-8") == write_report(fx)
    assert list(tmp_path.iterdir()) == [target]


def test_nothing_half_written(fx, tmp_path, monkeypatch):
    target = tmp_path / "report.html"
    target.write_text("old", encoding="utf-8")

    def full(_):
        raise OSError("disk full")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="disk full"):
        write_report(fx, target)
    assert target.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_browser_opens_only_when_told_to(fx, tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    write_report(fx, tmp_path / "a.html")
    assert opened == []
    write_report(fx, tmp_path / "a.html", open_browser=True)
    assert opened == [(tmp_path / "a.html").as_uri()]
    with pytest.raises(ValueError, match="`open_browser` must come with a `path`, got None"):
        write_report(fx, open_browser=True)


def test_messages(fx, tmp_path, monkeypatch):
    with pytest.raises(
        IsADirectoryError, match=r"`path` must be a file, got the folder .*; add a name like report\.html"
    ):
        write_report(fx, tmp_path)
    with pytest.raises(FileNotFoundError, match="`path` must be in a folder that exists"):
        write_report(fx, tmp_path / "none" / "report.html")
    with pytest.raises(TypeError, match="`densities` must be a list of names or a mapping, got 'uniform'"):
        write_report(fx, densities="uniform")
    with pytest.raises(ValueError, match="`max_terms` must be at least 1, got 0"):
        write_report(fx, max_terms=0)
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    write_report.__globals__["_vega"].cache_clear()
    with pytest.raises(ImportError, match=r"needs vl-convert-python, .*pip install 'treeanova\[report\]'"):
        write_report(fx)
    write_report.__globals__["_vega"].cache_clear()


def _statistics(axis, column):
    return statistics_of(column[:, None], Grid(Schema((Feature("x"),)), (axis,)))


def test_window_shows_the_rows_and_the_bounds():
    axis = IntervalAxis("x", -1, np.array([1.0, 2.0]))
    assert window(axis, 0, None)["low"] == pytest.approx(0.97)
    near = window(axis, 0, _statistics(axis, np.linspace(0, 10, 1000)))
    assert near["low"] < 0.1
    assert near["high"] > 9.9
    assert not near["cut"]
    wide = IntervalAxis("x", -1, np.array([1.0, 1000.0]))
    far = window(wide, 0, _statistics(wide, np.append(np.linspace(0, 10, 1000), 5000.0)))
    assert far["cut"]
    assert 9 < far["high"] < 12
    assert window(IntervalAxis("x", -1, np.empty(0)), 0, None) == {"low": -0.03, "high": 1.03, "cut": False}


def test_budgets():
    assert bins_of_mains([10] * 20, 5) == 256
    assert bins_of_mains([256] * 1000, 5) == 16
    sides = bins_of_pairs([(300, 300)] * 500, 2)
    assert sides == sorted(sides, reverse=True)
    assert sides[0] >= 48
    assert sides[-1] == 8
    assert (most_pair_bins(None), most_pair_bins(100), most_pair_bins(4800)) == (64, 12, 40)
    assert unit_of(0.0) == 1.0
    assert unit_of(2.5) == pytest.approx(1e-5)
    assert millionths([0.0, 1e-9, 0.25]) == [0, 1, 250_000]
    assert len(set(distinct_numbers(np.array([1.0, 1 + 1e-9])))) == 2


def ranked(*shares, order=1):
    return [Standing(f"t{i}", order, share, share, 0.0) for i, share in enumerate(shares)]


def test_headline():
    both = [*ranked(0.6, 0.25), Standing("a × b", 2, 0.15, 0.15, 0.0)]
    raw = [Standing("a × b", 2, 0.26, 0.26, 0.0), *ranked(0.74)]
    assert headline(both, raw).replace("\u00a0", " ") == (
        "2 of 3 terms carry 85 % of the variance of all terms; the strongest interaction is a × b (15 %); "
        "purification moved 11 % from pairs to mains."
    )
    assert headline(ranked(1.0)).replace("\u00a0", " ") == (
        "The only term carries 100 % of the variance of all terms; there are no interactions."
    )
    assert headline([]) == "The model is constant: no term carries any variance."
    assert shares_by_order([*both, Standing("a × b × c", 5, 0.1, 0.1, 0.0)]) == pytest.approx((0.85, 0.15, 0.1))


def test_html_summary_is_small_escaped_and_without_script():
    hostile, _ = regression(HOSTILE[:3])
    text = html_summary(hostile)
    parsed = Parsed(text)
    assert {tag for tag, _ in parsed.tags} <= {"div", "p", "strong", "table", "thead", "tbody", "tr", "th", "td", "em"}
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert len(text) < 10_000
    ranking = standings(hostile)["score"]
    assert text.count("<tr>") == 1 + len(ranking)
    assert [term.variance for term in ranking] == sorted((term.variance for term in ranking), reverse=True)


def test_a_headline_of_terms_that_cancel_out_has_no_impossible_shares():
    opposed = [Standing("a", 1, 0.9, 1.2, 0.0), Standing("b", 1, 0.6, -0.3, 0.0), Standing("a × b", 2, 0.1, 0.1, 0.0)]
    raw = [Standing("a", 1, 9.0, 2.0, 0.0), Standing("a × b", 2, 8.0, -1.0, 0.0)]
    assert headline(opposed, raw).replace("\u00a0", " ") == (
        "2 of 3 terms carry 94 % of the variance of all terms; the strongest interaction is a × b (10 %)."
    )
