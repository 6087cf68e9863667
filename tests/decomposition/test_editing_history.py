"""Histories of edits: what they state, by brute force at rows; undo, files, pickles; impact at rows and by group."""

from __future__ import annotations

import json
import pickle
import zipfile

import numpy as np
import pytest

import treeanova
from tests.support.simulated import dependent_rows
from treeanova.model import Effects
from treeanova.terms.terms import Edit, Scope

ROWS = dependent_rows()


def additive(link="identity"):
    """Main effects and all pairs of three features, at random."""
    rng = np.random.default_rng(1)
    cuts = {f"x{j}": list(np.linspace(-1.5, 1.5, size - 1).round(3)) for j, size in enumerate((7, 6, 4))}
    sizes = {name: len(ends) + 1 for name, ends in cuts.items()}
    keys = [("x0",), ("x1",), ("x2",), ("x0", "x1"), ("x0", "x2"), ("x1", "x2")]
    tables = {key: rng.normal(size=[sizes[name] for name in key]) / len(key) for key in keys}
    return Effects.from_tables(tables, thresholds=cuts, intercept=0.3, link=link)


@pytest.fixture(scope="module")
def fx():
    return treeanova.decompose(additive(), ROWS, density="empirical", n_jobs=1)


EDITS = {
    "set": lambda fx: fx.set(("x0", "x1"), np.square),
    "scale": lambda fx: fx.scale("x0", 0.5),
    "scale several": lambda fx: fx.scale({"x0": 0.5, "x1": 0.0}),
    "cap": lambda fx: fx.cap("x0", high=0.2),
    "round": lambda fx: fx.round(step=0.5),
    "smooth": lambda fx: fx.smooth("x1", 10.0),
    "merge": lambda fx: fx.merge("x0", [1, 2, 3]),
    "monotone": lambda fx: fx.monotone("x0", "increasing"),
    "drop": lambda fx: fx.drop("x2"),
    "select": lambda fx: fx.select(order=1),
    "simplify": lambda fx: fx.simplify(ROWS, fx.decision_function(ROWS) + ROWS[:, 0], loss="squared").chosen,
    "simplify with round cuts": lambda fx: (
        fx.simplify(ROWS, fx.decision_function(ROWS) + ROWS[:, 0], loss="squared", round_cuts=True).chosen
    ),
}


@pytest.mark.parametrize("name", EDITS)
def test_every_statement_is_that_of_the_rows(fx, name):
    edited = EDITS[name](fx)
    [edit] = edited.history
    change = edited.decision_function(ROWS) - fx.decision_function(ROWS)
    assert edit.rms == pytest.approx(np.sqrt(np.mean(change**2)), rel=1e-9)
    assert edit.largest == pytest.approx(np.abs(change).max(), rel=1e-9)
    assert edit.share == pytest.approx((np.abs(change) > 1e-9).mean(), rel=1e-9)
    assert edit.action == name.split(maxsplit=1)[0]


@pytest.mark.parametrize("name", ["set", "monotone", "drop"])
@pytest.mark.parametrize("density", ["uniform", "auto", "laplace", "independent"])
def test_statements_are_about_the_density(density, name):
    fx = treeanova.decompose(additive(), ROWS, density=density, n_jobs=1)
    edited = EDITS[name](fx)
    [edit] = edited.history
    if name == "set":  # exact: the change is one table
        term = fx.terms["x0", "x1"]
        change = term.values**2 - term.values
        assert edit.n_rows is None
        assert edit.rms == pytest.approx(np.sqrt((term.weights * change**2).sum()))
        assert edit.largest == pytest.approx(np.abs(change[term.weights > 0]).max())
        return
    if density == "uniform":  # all cells count alike
        cells = np.stack(np.meshgrid(*(axis.examples() for axis in fx.grid.axes), indexing="ij"), axis=-1).reshape(
            -1, 3
        )
        change = edited.decision_function(cells) - fx.decision_function(cells)
        assert edit.rms == pytest.approx(np.sqrt(np.mean(change**2)), rel=0.03)  # by draws
        assert edit.largest <= np.abs(change).max() + 1e-12
        assert edit.n_rows is not None


def test_several_outputs_have_a_number_each(several):
    edited = several.cap("x0", high=0.0)
    change = edited.decision_function(ROWS) - several.decision_function(ROWS)
    np.testing.assert_allclose(edited.history[0].rms, np.sqrt(np.mean(change**2, axis=0)))
    np.testing.assert_allclose(edited.history[0].largest, np.abs(change).max(axis=0))


def test_an_edit_that_changes_nothing_says_so(fx):
    edited = fx.cap("x0", high=100.0)
    np.testing.assert_allclose(edited.decision_function(ROWS), fx.decision_function(ROWS), atol=1e-14)
    assert edited == fx
    [edit] = edited.history
    assert (edit.rms, edit.largest, edit.share, edit.moved) == (0.0, 0.0, 0.0, ())


def all_edits(fx):
    """Ten edits in a row, and the decompositions on the way."""
    states = [fx]
    for name in ("scale", "set", "cap", "smooth", "merge", "monotone", "round", "drop", "select"):
        states.append(EDITS[name](states[-1]))
    return states


def test_undo_gives_the_same_digits(fx):
    states = all_edits(fx)
    last = states[-1]
    for n in range(1, len(states)):
        before = last.undo(n)
        assert before == states[-1 - n]
        assert before.history == states[-1 - n].history
        assert str(before.certificate) == str(states[-1 - n].certificate)
        np.testing.assert_array_equal(before.decision_function(ROWS), states[-1 - n].decision_function(ROWS))
    assert last.undo(9).raw == fx.raw
    assert last.undo(4).undo(5) == fx
    assert not last.undo(9).history


def there_and_back(fx, folder):
    fx.save(folder / "fx.tav")
    return treeanova.load(folder / "fx.tav")


@pytest.mark.parametrize("density", ["empirical", "auto"])
def test_histories_and_undo_survive_saving(density, tmp_path):
    fx = treeanova.decompose(additive(), ROWS, density=density, n_jobs=1)
    states = all_edits(fx)
    for loaded in (there_and_back(states[-1], tmp_path), pickle.loads(pickle.dumps(states[-1]))):
        assert loaded == states[-1]
        assert loaded.history == states[-1].history
        assert [str(edit) for edit in loaded.history] == [str(edit) for edit in states[-1].history]
        for n in range(1, len(states)):
            before = loaded.undo(n)
            assert before == states[-1 - n]
            assert before.raw == states[-1 - n].raw
            np.testing.assert_array_equal(before.decision_function(ROWS), states[-1 - n].decision_function(ROWS))
            assert str(before.history) == str(states[-1 - n].history)
        again = there_and_back(loaded.undo(3), tmp_path)
        assert again.undo() == states[-5]
        table, expected = (one.impact(ROWS).table for one in (loaded, states[-1]))
        np.testing.assert_array_equal(table["rms"], expected["rms"])


def test_tables_that_stay_are_in_the_file_once(fx, tmp_path):
    fx.save(tmp_path / "fx.tav")
    edited = fx
    for i in range(20):
        edited = edited.scale("x2", 1.0 + i / 100)
    edited.save(tmp_path / "edited.tav")
    edited.save(tmp_path / "alone.tav", past=False)
    sizes = {name: (tmp_path / f"{name}.tav").stat().st_size for name in ("fx", "edited", "alone")}
    assert sizes["alone"] < 2 * sizes["fx"]
    assert sizes["edited"] < 4 * sizes["fx"]  # 21 decompositions


def test_deep_ensembles_keep_their_past(deep_fx, deep, tmp_path):
    rows = deep[1][:20]
    edited = deep_fx.scale("x0", 0.5).drop("x1")
    loaded = there_and_back(edited, tmp_path)
    np.testing.assert_allclose(loaded.decision_function(rows), edited.decision_function(rows), atol=1e-10)
    np.testing.assert_allclose(loaded.undo(2).decision_function(rows), deep_fx.decision_function(rows), atol=1e-10)
    assert loaded.undo(2).terms.keys() == deep_fx.terms.keys()
    change = deep_fx.select(order=1).history[0]
    assert change.rms > 0


def damage(change):
    """A function that changes the header of a file."""

    def write(source, target):
        with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
            for entry in old.namelist():
                content = old.read(entry)
                if entry == "header.json":
                    header = json.loads(content)
                    change(header)
                    content = json.dumps(header).encode()
                new.writestr(entry, content)

    return write


@pytest.mark.parametrize(
    "change",
    [
        lambda header: header.pop("same"),
        lambda header: header["same"].update({"past/0/pure/intercept": "nowhere"}),
        lambda header: header.update(same=[1]),
        lambda header: header.update(past="text"),
        lambda header: header["past"].reverse(),
        lambda header: header["past"].append(header["past"][0]),
        lambda header: header["past"][0].pop("pure"),
        lambda header: header["past"][0].update(derived=-5),
        lambda header: header["past"][1]["scope"]["fields"].update(edits={"tuple": ["other words"]}),
        lambda header: header["scope"]["fields"]["edits"]["tuple"][0]["fields"].update(rms=-1.0),
        lambda header: header["scope"]["fields"]["edits"]["tuple"][0]["fields"].update(note=5),
        lambda header: header.update(derived=header["derived"] + 8),
    ],
)
def test_damaged_histories_are_refused(fx, change, tmp_path):
    fx.scale("x0", 0.5).cap("x1", high=0.1).save(tmp_path / "fx.tav")
    damage(lambda header: None)(tmp_path / "fx.tav", tmp_path / "same.tav")
    assert len(treeanova.load(tmp_path / "same.tav").history) == 2
    damage(change)(tmp_path / "fx.tav", tmp_path / "damaged.tav")
    with pytest.raises(treeanova.errors.ArchiveError, match="must be a whole file saved by treeanova"):
        treeanova.load(tmp_path / "damaged.tav")


def test_old_files_have_words_only():
    scope = Scope(n_terms=6, edits=("x0 times 0.5",))
    assert scope.history == (Edit("x0 times 0.5"),)
    assert str(scope.history[0]) == "x0 times 0.5"
    with pytest.raises(ValueError, match="measures of an edit must not be negative"):
        Edit("a", rms=-1.0)


def test_what_cannot_be_undone_is_refused_with_the_reason(fx, tmp_path):
    with pytest.raises(ValueError, match=r"`n` must be at most 0, the number of edits .* it has no more edits"):
        fx.undo()
    edited = fx.scale("x0", 0.5)
    for later in (edited.with_density("uniform"), edited.truncate(1), edited.raw):
        assert str(later.history) == str(edited.history)
        with pytest.raises(ValueError, match=r"1 of 1 edits were made before with_density\(\) or another operation"):
            later.undo()
        with pytest.raises(ValueError, match=r"impact\(\) must have edits, .* got edits that were followed by another"):
            later.impact(ROWS)
    twice = edited.with_density("uniform").scale("x1", 2.0)
    assert len(twice.history) == 2
    assert twice.undo() == edited.with_density("uniform")
    edited.save(tmp_path / "fx.tav", past=False)
    loaded = treeanova.load(tmp_path / "fx.tav")
    assert str(loaded.history) == str(edited.history)
    with pytest.raises(ValueError, match="saved with past=False"):
        loaded.undo()
    with pytest.raises(ValueError, match=r"impact\(\) must have edits, .* got no edits"):
        fx.impact(ROWS)


def test_histories_are_told_in_words(fx):
    edited = fx.cap("x0", high=0.2, note="cannot <help>").monotone("x1", "decreasing")
    text = str(edited.history)
    assert text == repr(edited.history)
    assert text.startswith("1. x0 capped at 0.2 (cannot <help>): scores move by ")
    assert "\n2. x1 made decreasing: scores move by " in text
    assert "purified again, which moved intercept" in text.splitlines()[0]
    assert "&lt;help&gt;" in edited.history._repr_html_()
    assert str(fx.history) == "no edits"
    assert edited.history[0].arguments == {"low": None, "high": 0.2}
    assert edited.certificate.edits == ("x0 capped at 0.2", "x1 made decreasing")


@pytest.mark.parametrize(
    ("combined", "words"),
    [
        (lambda fx, edited: edited - fx, "sum of 2 models, edited before: model 1 (x0 times 0.5, x1 capped at 0.1)"),
        (lambda fx, edited: fx + edited, "sum of 2 models, edited before: model 2 (x0 times 0.5, x1 capped at 0.1)"),
        (lambda fx, edited: treeanova.mean([edited, fx]), "sum of 2 models, edited before: model 1 (x0 times 0.5, x1"),
        (
            lambda fx, edited: edited.drop("x2") - edited,
            "model 1 (x0 times 0.5, x1 capped at 0.1, x2 dropped), model 2",
        ),
    ],
)
def test_sums_of_models_say_which_were_edited(fx, combined, words, tmp_path):
    whole = combined(fx, fx.scale("x0", 0.5).cap("x1", high=0.1))
    assert words in str(whole.history)
    assert "edited (sum of 2 models" in repr(whole)
    assert "edited (sum of 2 models" in str(whole.certificate)
    whole.save(tmp_path / "fx.tav")
    assert treeanova.load(tmp_path / "fx.tav").history == whole.history
    with pytest.raises(ValueError, match="`n` must be at most 0"):
        whole.undo()


def test_sums_of_selections_and_of_whole_models_are_not_edited(fx):
    assert (fx - fx).history == ()
    difference = fx - fx.drop("x2")
    assert str(difference.history) == "1. sum of 2 models, edited before: model 2 (x2 dropped)"
    assert difference.certificate.edits == ()


# What earlier edits state about the score.


def cells_of(fx):
    """A row in each cell of the grid, in the shape of the grid."""
    sizes = [axis.n_regular for axis in fx.grid.axes]
    rows = np.stack(np.meshgrid(*(axis.examples()[: axis.n_regular] for axis in fx.grid.axes), indexing="ij"), axis=-1)
    return rows.reshape(-1, len(sizes)), sizes


def scores_in_cells(fx):
    rows, sizes = cells_of(fx)
    return fx.decision_function(rows).reshape(sizes)


LATER = {
    **{name: EDITS[name] for name in EDITS if name not in ("merge", "monotone")},
    "round a term": lambda fx: fx.round("x0", digits=1),
    "monotone again": lambda fx: fx.monotone("x0", "increasing"),
    "other direction": lambda fx: fx.monotone("x0", "decreasing"),
    "other feature": lambda fx: fx.monotone("x1", "increasing"),
    "merge others": lambda fx: fx.merge("x1", [0, 1]),
    "merge more": lambda fx: fx.merge("x0", [2, 3, 4]),
    "other pair": lambda fx: fx.scale(("x1", "x2"), -3.0),
    "its pair": lambda fx: fx.set(("x0", "x2"), np.square),
    "without its pairs": lambda fx: fx.select(terms=["x0", "x1"]),
    "drop it": lambda fx: fx.drop("x0"),
    "drop another": lambda fx: fx.drop("x1"),
}


@pytest.mark.parametrize("name", LATER)
def test_an_edit_says_which_earlier_statements_it_makes_untrue(fx, name):
    """By brute force in all cells; of rounded cuts, in all cells of the old ones."""
    merged = fx.merge("x0", [1, 2, 3]).monotone("x0", "increasing")
    edited = LATER[name](merged)
    first, second = (edit.words for edit in merged.history)
    assert merged.history[1].breaks == ()
    last = edited.history[-1]
    cells, sizes = cells_of(merged)
    scores = edited.decision_function(cells).reshape(sizes)
    is_rising, is_one = (np.diff(scores, axis=0) > -1e-9).all(), np.ptp(scores[1:4], axis=0).max() < 1e-9
    if name == "simplify with round cuts":  # which lie between rows, not cells
        is_rising = (np.diff(scores_in_cells(edited), axis=0) > -1e-9).all()
    untrue = {words for words, is_true in ((first, is_one), (second, is_rising)) if not is_true}
    assert set(last.breaks) == untrue
    assert all(words in str(last) for words in untrue)
    assert ("no longer true" in str(last)) is bool(untrue)


def test_random_models_tell_what_a_second_monotone_feature_breaks():
    n_broken = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        cuts = {"a": [1, 2, 3], "b": [1, 2, 3]}
        tables = {"a": rng.normal(size=4), "b": rng.normal(size=4), ("a", "b"): rng.normal(size=(4, 4))}
        rows = (rng.integers(0, 4, size=(60, 1)) + rng.integers(0, 2, size=(60, 2))) % 4 + 0.5
        fx = treeanova.decompose(Effects.from_tables(tables, thresholds=cuts), rows, density="empirical")
        twice = fx.monotone("a", 1).monotone("b", -1)
        scores = scores_in_cells(twice)
        assert (np.diff(scores, axis=1) < 1e-9).all()
        is_broken = (np.diff(scores, axis=0) < -1e-9).any()
        assert twice.history[1].breaks == (("a made increasing",) if is_broken else ())
        n_broken += is_broken
    assert n_broken > 0


def test_categories_that_are_told_apart_again():
    rng = np.random.default_rng(0)
    tables = {"a": rng.normal(size=4), "g": rng.normal(size=3), ("a", "g"): rng.normal(size=(4, 3))}
    effects = Effects.from_tables(tables, thresholds={"a": [1, 2, 3]}, categories={"g": list("xyz")})
    merged = treeanova.decompose(effects, density="uniform").merge("g", ["x", "z"])
    for edited in (merged.monotone("a", 1), merged.set("g", {"x": 5.0}), merged.round(digits=0), merged.scale("g", 0)):
        scores = scores_of_categories(edited)
        is_one = np.allclose(scores[:, 0], scores[:, 2], atol=1e-9)
        assert edited.history[1].breaks == (() if is_one else ("g: x, z merged",))


def scores_of_categories(fx):
    pd = pytest.importorskip("pandas")
    numbers, letters = np.repeat([0.5, 1.5, 2.5, 3.5], 3), list("xyz") * 4
    return fx.decision_function(pd.DataFrame({"a": numbers, "g": letters})).reshape(4, 3)


def test_a_statement_is_broken_once_and_stands_again_after_its_edit(fx):
    edited = fx.monotone("x0", 1).set("x0", [0, 3, 0, 3, 0, 3, 0]).scale("x1", 2.0).monotone("x0", 1).cap("x0", high=0)
    assert [edit.breaks for edit in edited.history][:4] == [(), ("x0 made increasing",), (), ()]
    assert edited.undo(4).history[-1].breaks == ()


def test_broken_statements_survive_saving(fx, tmp_path):
    edited = fx.monotone("x0", 1).set("x0", [0, 3, 0, 3, 0, 3, 0])
    edited.save(tmp_path / "fx.tav", past=False)
    loaded = treeanova.load(tmp_path / "fx.tav")
    assert loaded.history == edited.history
    assert loaded.history[1].breaks == ("x0 made increasing",)
    assert str(loaded.history).endswith("; no longer true: x0 made increasing")
    again = loaded.monotone("x0", 1).set("x0", [0, 3, 0, 3, 0, 3, 0])  # a file has all that this needs
    assert again.history[-1].breaks == ("x0 made increasing",)


def test_a_statement_about_one_output_is_of_that_output(several):
    edited = several.monotone("x0", 1, output="u")
    words = "x0 made increasing, for u"
    assert [edit.words for edit in edited.history] == [words]
    assert edited.set("x0", -several.terms["x0"].values[..., 1], output="v").history[1].breaks == ()
    n_bins = len(several.terms["x0"].values)
    assert edited.set("x0", -10.0 * np.arange(n_bins), output="u").history[1].breaks == (words,)


# Impact at rows.


def outcome(fx, rows, seed=5):
    return fx.decision_function(rows) + np.random.default_rng(seed).normal(size=len(rows))


@pytest.mark.parametrize("is_weighted", [False, True])
def test_impact_by_brute_force(fx, is_weighted):
    rows = dependent_rows(200, seed=7)
    y, sex = outcome(fx, rows), np.where(rows[:, 1] > 0.2, "m", "f")
    weights = np.random.default_rng(3).integers(0, 4, len(rows)) if is_weighted else np.ones(len(rows))
    edited = fx.scale("x0", 0.5).monotone("x1", 1)
    impact = edited.impact(rows, y, group=sex, loss="squared", sample_weight=weights if is_weighted else None)
    scores = [one.decision_function(rows) for one in (fx, edited.undo(), edited)]
    pairs, n = [(0, 1), (1, 2), (0, 2)], (weights > 0).sum()
    assert list(impact.table["edit"]) == ["x0 times 0.5", "x1 made increasing", "all edits"]
    assert impact.n_rows == n
    for i, (a, b) in enumerate(pairs):
        change = scores[b] - scores[a]
        assert impact.table["rms"][i] == pytest.approx(np.sqrt(np.average(change**2, weights=weights)))
        assert impact.table["largest"][i] == pytest.approx(np.abs(change[weights > 0]).max())
        assert impact.table["mean"][i] == pytest.approx(np.average(change, weights=weights))
        assert impact.table["changed"][i] == pytest.approx(np.average(np.abs(change) > 1e-9, weights=weights))
        losses = [(score - y) ** 2 for score in (scores[a], scores[b])]
        means = [np.average(loss, weights=weights) for loss in losses]
        assert impact.losses["before"][i] == pytest.approx(means[0])
        assert impact.losses["after"][i] == pytest.approx(means[1])
        assert impact.losses["change"][i] == pytest.approx(means[1] - means[0])
        scaled = weights / weights[weights > 0].mean()
        deviations = scaled * (losses[1] - losses[0] - (means[1] - means[0]))
        assert impact.losses["error"][i] == pytest.approx(np.sqrt((deviations**2).sum() / (n * (n - 1))))
        gaps = [
            np.average(score[sex == "m"], weights=weights[sex == "m"])
            - np.average(score[sex == "f"], weights=weights[sex == "f"])
            for score in (scores[a], scores[b])
        ]
        assert impact.gaps["before"][i] == pytest.approx(gaps[0])
        assert impact.gaps["after"][i] == pytest.approx(gaps[1])
        assert impact.gaps["change"][i] == pytest.approx(gaps[1] - gaps[0])
        before = fx if a == 0 else edited.undo()
        assert before.gap(rows, sex, sample_weight=weights if is_weighted else None).total == pytest.approx(gaps[0])
        for g, name in enumerate("fm"):
            inside, place = sex == name, 2 * i + g
            assert impact.groups["group"][place] == name
            assert impact.groups["n_rows"][place] == (inside & (weights > 0)).sum()
            expected = np.sqrt(np.average(change[inside] ** 2, weights=weights[inside]))
            assert impact.groups["rms"][place] == pytest.approx(expected)
    difference = (edited - fx).gap(rows, sex, sample_weight=weights if is_weighted else None)  # the gap of the change
    assert impact.gaps["error"][2] == pytest.approx(difference.error)


def test_losses_are_the_models_own_and_gaps_need_two_groups():
    fx = treeanova.decompose(additive("logit"), ROWS, density="empirical", n_jobs=1)
    rng = np.random.default_rng(0)
    probability = 1 / (1 + np.exp(-fx.decision_function(ROWS)))
    y = (rng.random(len(ROWS)) < probability).astype(int)
    edited = fx.cap(("x0", "x1"), -0.1, 0.1)
    groups = rng.choice(["a", "b", "c"], len(ROWS))
    impact = edited.impact(ROWS, y, group=groups, loss="log")
    after = 1 / (1 + np.exp(-edited.decision_function(ROWS)))
    assert impact.losses["after"][0] == pytest.approx(-np.mean(y * np.log(after) + (1 - y) * np.log(1 - after)))
    assert impact.gaps is None
    assert list(impact.groups["group"]) == ["a", "b", "c"]
    assert len(impact.table["edit"]) == 1  # no sum of one edit
    assert impact.losses["before"][0] == pytest.approx(np.atleast_1d(fx.validate(ROWS, y, loss="log").model_loss)[0])


def test_impact_prints_and_is_plain_data(fx):
    edited = fx.scale("x0", 0.5).cap("x1", high=0.1)
    impact = edited.impact(ROWS, outcome(fx, ROWS), group=ROWS[:, 2] > 0, loss="squared")
    text = str(impact)
    for words in ("2 edits at 300 rows", "x1 capped at 0.1", "all edits", "By group", "the group minus all others"):
        assert words in text
    assert json.loads(json.dumps(impact.to_dict()))["table"][0]["edit"] == "x0 times 0.5"
    assert impact.to_dict()["losses"][0]["change"] is not None
    assert edited.impact(ROWS).to_dict()["gaps"] is None
    assert "By group" not in str(edited.impact(ROWS))


def test_impact_with_several_outputs(several):
    edited = several.cap("x0", high=0.0)
    labels = np.array(list("uvw"))[np.argmax(several.decision_function(ROWS) + ROWS, axis=1)]
    impact = edited.impact(ROWS, labels, group=ROWS[:, 2] > 0)
    change = edited.decision_function(ROWS) - several.decision_function(ROWS)
    assert list(impact.table["output"]) == ["u", "v", "w"]
    np.testing.assert_allclose(impact.table["rms"], np.sqrt(np.mean(change**2, axis=0)))
    assert len(impact.losses["change"]) == 1  # classes are judged together
    second = ROWS[:, 2] > 0
    np.testing.assert_allclose(impact.gaps["change"], change[second].mean(axis=0) - change[~second].mean(axis=0))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"X": ROWS[:0]}, "`X` must have rows, got none"),
        ({"X": ROWS, "group": np.zeros(len(ROWS))}, "`group` must be groups of rows, got 0.0 in all rows"),
        ({"X": ROWS, "y": ROWS[:, 0]}, "must know the loss that the model was trained to minimise"),
        ({"X": ROWS[:10], "y": ROWS[:10, 0], "loss": "squared"}, "`X` must have at least 30 rows"),
        ({"X": ROWS, "y": np.arange(300) % 3, "loss": "pairwise"}, "`query` must name the query of each row"),
        (
            {"X": ROWS, "group": ROWS[:, 0] > 0, "sample_weight": (ROWS[:, 0] > 0).astype(float)},
            "`sample_weight` must be positive for rows of all groups",
        ),
    ],
)
def test_bad_rows_are_refused(fx, arguments, words):
    with pytest.raises(ValueError, match=words):
        fx.scale("x0", 0.5).impact(**arguments)
