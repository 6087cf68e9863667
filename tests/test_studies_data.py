"""The studies on data: the loader of MIMIC-III on small files, and what the others measure, on cases known by hand."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import treeanova
from tests.support.training import fit

pd = pytest.importorskip("pandas")
pytest.importorskip("matplotlib")

from studies import california, compas, mimic, models, mortality, simpler  # noqa: E402
from studies import compas_effects as effects  # noqa: E402


def write_files(folder, *, upper=True):
    """Three files of three adults (one of hidden age) and a newborn; labs out of order, of no stay, of nonsense."""
    admissions = pd.DataFrame(
        {
            "row_id": [1, 2, 3, 4, 5],
            "subject_id": [1, 1, 2, 3, 4],
            "hadm_id": [11, 12, 21, 31, 41],
            "admittime": [
                "2150-01-02 12:00:00",
                "2160-01-02 00:00:00",
                "2150-06-01 00:00:00",
                "2150-01-01 00:00:00",
                "2150-01-01 00:00:00",
            ],
            "dischtime": [
                "2150-01-04 00:00:00",
                "2160-01-03 00:00:00",
                "2150-06-02 00:00:00",
                "2150-01-02 00:00:00",
                "2150-01-02 00:00:00",
            ],
            "admission_type": ["EMERGENCY", "ELECTIVE", "URGENT", "NEWBORN", "EMERGENCY"],
            "hospital_expire_flag": [0, 1, 0, 0, 1],
        }
    )
    patients = pd.DataFrame(
        {
            "subject_id": [1, 2, 3, 4],
            "gender": ["F", "M", "M", "F"],
            "dob": ["2100-01-02", "1850-06-01", "2150-01-01", "2080-01-01"],
        }
    )
    labs = pd.DataFrame(
        [
            (11, 51006, "2150-01-03 08:00:00", 20.0),
            (11, 51006, "2150-01-02 13:00:00", 30.0),
            (11, 51006, "2150-01-02 12:30:00", -1.0),  # not a concentration
            (11, 50983, "2150-01-02 13:00:00", 140.0),
            (11, 50824, "2150-01-02 12:45:00", 138.0),  # sodium from blood gas, earlier
            (12, 51006, "2160-01-02 13:00:00", 44.0),
            (np.nan, 51006, "2150-01-01 00:00:00", 99.0),  # outside any stay
            (21, 12345, "2150-06-01 01:00:00", 7.0),  # another test
        ],
        columns=["hadm_id", "itemid", "charttime", "valuenum"],
    )
    tables = {"ADMISSIONS.csv": admissions, "PATIENTS.csv": patients, "LABEVENTS.csv.gz": labs}
    for name, table in tables.items():
        (table.rename(columns=str.upper) if upper else table).to_csv(folder / name, index=False)
    return [folder / name for name in tables]


@pytest.mark.parametrize(("upper", "chunk_rows"), [(True, 1_000), (False, 1)])
def test_mimic_is_loaded_from_its_three_files(tmp_path, upper, chunk_rows):
    rows = mimic.load_admissions(*write_files(tmp_path, upper=upper), chunk_rows=chunk_rows).set_index("hadm_id")
    assert list(rows.index) == [11, 12, 21, 41]  # the newborn is left out
    assert rows["age"].round(1).to_dict() == {11: 50.0, 12: 60.0, 21: 91.4, 41: 70.0}
    assert rows["bun"].fillna(-1).to_dict() == {11: 30.0, 12: 44.0, 21: -1, 41: -1}
    assert rows.loc[11, "sodium"] == 138.0
    assert rows.loc[11, "los_days"] == 1.5
    assert rows["hospital_expire_flag"].tolist() == [0, 1, 0, 1]
    assert rows["gender"].tolist() == ["F", "F", "M", "F"]
    assert rows["lactate"].isna().all()


def test_newborns_are_loaded_on_request(tmp_path):
    rows = mimic.load_admissions(*write_files(tmp_path), min_age=0)
    assert rows.loc[rows["hadm_id"] == 31, "age"].tolist() == [0.0]


def test_a_file_of_other_columns_is_refused(tmp_path):
    paths = write_files(tmp_path)
    with pytest.raises(ValueError, match="must have the columns subject_id, gender, dob"):
        mimic.load_admissions(paths[0], paths[2], paths[2])


def test_hidden_and_unknown_ages():
    ages = mimic.corrected_age(pd.Series([50, 89, 300, np.nan]))
    assert ages.fillna(-1).tolist() == [50, 89, 91.4, -1]


def test_the_demo_extract_survives_the_loader(data_folder, tmp_path):
    """Its rows written as MIMIC's own files, a second and later value after each first one, come back as they were."""
    demo = pd.read_csv(data_folder / "mimic3_demo_admissions.csv")
    admitted = pd.Timestamp("2150-01-01")
    born = [f"{2150 - age}-01-01" for age in demo["age"]]
    stays = demo[["subject_id", "hadm_id", "admission_type", "hospital_expire_flag"]].assign(
        admittime=admitted, dischtime=admitted + pd.to_timedelta(demo["los_days"], unit="D")
    )
    stays["subject_id"] = demo["hadm_id"]  # ages differ between stays of one patient
    labs = demo.melt("hadm_id", list(mimic.LABS), "lab", "valuenum").dropna()
    labs["itemid"] = labs["lab"].map(lambda lab: mimic.LABS[lab][0])
    first, later = labs.assign(charttime="2150-01-01 01:00:00"), labs.assign(charttime="2150-01-02 01:00:00")
    files = {
        "a.csv": stays,
        "p.csv": pd.DataFrame({"subject_id": demo["hadm_id"], "gender": demo["gender"], "dob": born}),
        "l.csv": pd.concat([later.assign(valuenum=later["valuenum"] + 1), first]),
    }
    for name, table in files.items():
        table.to_csv(tmp_path / name, index=False)
    rows = mimic.load_admissions(*(tmp_path / name for name in files), chunk_rows=500)
    pd.testing.assert_frame_equal(rows[list(mimic.LABS)], demo[list(mimic.LABS)], check_dtype=False)
    assert np.abs(rows["age"] - mimic.corrected_age(demo["age"])).max() < 0.01
    assert rows["gender"].tolist() == demo["gender"].tolist()


def two_levels(**values):
    """Values of two levels in four models, all states the same unless told otherwise."""
    levels = [("sex", "a"), ("sex", "b")]
    base = {state: dict.fromkeys(levels, 1.0) for state in effects.STATES}
    return {model: base | values.get(model, {}) for model in effects.MODELS}, levels


def test_contradictions_are_opposite_signs_away_from_zero():
    found, levels = two_levels(
        XGB2={"raw": {("sex", "a"): -1.0, ("sex", "b"): -0.01}, "auto": {("sex", "a"): 0.0, ("sex", "b"): 2.0}}
    )
    pairs = effects.contradictions(found, "raw", levels)
    assert pairs == [(("sex", "a"), "XGB", "XGB2"), (("sex", "a"), "XGB2", "GAM"), (("sex", "a"), "XGB2", "GA2M")]
    assert effects.contradictions(found, "auto", levels) == []


def test_changes_of_sign_between_densities():
    found, levels = two_levels(
        XGB2={"uniform": {("sex", "a"): -1.0, ("sex", "b"): 1.0}, "raw": {("sex", "a"): 1.0, ("sex", "b"): -1.0}}
    )
    assert effects.sign_changes(found["XGB2"], levels) == [("sex", "a")]  # "raw" is no density


def small_model():
    from sklearn.tree import DecisionTreeRegressor

    X = pd.DataFrame({"a": [0.0, 0, 0, 1], "b": [0.0, 1, 1, 1]})
    return fit(DecisionTreeRegressor(), X, [0.0, 1, 1, 3]), X


def test_level_values_are_means_over_rows():
    model, X = small_model()
    rows = X.rename(columns={"a": "age", "b": "priors_count"})
    fx = treeanova.decompose(model, rows, density="uniform", feature_names=["age", "priors_count"])
    masks = {
        ("age", "all"): np.ones(4, bool),
        ("age", "one"): rows["age"].to_numpy() == 1,
        ("race", "x"): np.ones(4, bool),
    }
    values = effects.level_values(fx, rows, masks)
    ends = fx.terms["age"].values
    assert values["age", "all"] == pytest.approx((3 * ends[0] + ends[1]) / 4)
    assert values["age", "one"] == pytest.approx(ends[1])
    assert values["race", "x"] == 0.0
    assert effects.level_values(fx, rows, masks, centre=True)["age", "all"] == pytest.approx(0.0)


def test_propublicas_filter(data_folder, is_full, monkeypatch):
    """Of the full table, the published numbers; of any table, the rows that pass every condition by hand."""
    monkeypatch.setenv("TREEANOVA_DATA", str(data_folder))
    rows = effects.read_rows()
    table = pd.read_csv(data_folder / "compas_two_years.csv.gz")
    kept = [
        row.Index
        for row in table.itertuples()
        if -30 <= row.days_b_screening_arrest <= 30 and row.is_recid != -1 and row.c_charge_degree != "O"
    ]
    assert len(rows) == len(kept) < len(table)
    assert rows["age"].tolist() == table["age"][kept].tolist()
    if is_full:
        assert len(rows) == 6_172
        assert rows["race"].value_counts()[["African-American", "Caucasian"]].tolist() == [3_175, 2_103]
    masks = effects.level_masks(rows)
    for name in effects.FEATURES:
        assert sum(mask.astype(int) for level, mask in masks.items() if level[0] == name).tolist() == [1] * len(rows)


def test_kilometres():
    """One degree of a meridian is 111.2 km; of the 60th parallel half as long."""
    places = pd.DataFrame({"Latitude": [60.0, 61.0, 60.0], "Longitude": [0.0, 0.0, 1.0]})
    np.testing.assert_allclose(california.kilometres(60.0, 0.0, places), [0.0, 111.19, 55.6], atol=0.01)


@pytest.mark.parametrize(
    ("values", "place"),
    [
        ([[0, 0], [0, 1]], "districts"),
        ([[1, 0], [0, 0]], "districts"),
        ([[0, 1], [0, 0]], "land without districts"),
        ([[0, 0], [1, 0]], "ocean"),
    ],
)
def test_where_the_largest_cell_lies(values, place):
    from sklearn.tree import DecisionTreeRegressor

    X = pd.DataFrame({"Latitude": [34.0, 36.0], "Longitude": [-124.0, -116.0]})
    corners = pd.DataFrame({"Latitude": [34.0, 34, 36, 36], "Longitude": [-124.0, -116, -124, -116]})
    fx = treeanova.decompose(fit(DecisionTreeRegressor(), corners, [0.0, 1, 2, 9]), corners)
    assert california.summit(np.array(values, float), fx, X).place == place
    assert california.summit(np.array(values, float), fx, X, seen_only=True).n_rows == 1


@pytest.mark.parametrize(
    ("latitude", "longitude", "is_ocean"),
    [
        (32.6, -122.6, True),
        (37.77, -122.42, False),  # San Francisco
        (34.05, -118.24, False),  # Los Angeles
        (33.39, -118.9, True),  # between the coast and the islands
        (38.0, -123.9, True),
        (41.0, -115.2, False),  # Nevada
        (40.44, -124.35, False),  # Cape Mendocino, the westernmost point
    ],
)
def test_the_coast(latitude, longitude, is_ocean):
    assert california.is_offshore(latitude, longitude) == is_ocean


def test_the_largest_raw_cell_stays_in_the_ocean_without_the_cities(data_folder, is_full):
    """The paper's explanation, refuted by the smallest of our models on all districts."""
    if not is_full:
        pytest.skip("simulated districts have no coast")
    pytest.importorskip("xgboost")
    data = pd.read_csv(data_folder / "california_housing.csv.gz")
    X, y = data.drop(columns="MedHouseVal"), data["MedHouseVal"]
    far = np.min([california.kilometres(*city, X) for city in california.METROS.values()], axis=0) > 80
    assert len(X) - far.sum() == 12_271
    for rows in (np.ones(len(X), bool), far):
        raw = treeanova.decompose(california._fit(X[rows], y[rows], (100, 0.3, 0)), X[rows], density="uniform").raw
        assert california.summit(raw.terms[california.PLACE].values, raw, X).in_ocean


def test_log_loss_of_log_odds():
    assert mortality.log_loss([1, 0], np.array([0.0, np.log(3)])) == pytest.approx((np.log(2) + np.log(4)) / 2)


def test_roughness_adds_ups_and_downs():
    from sklearn.tree import DecisionTreeRegressor

    X = pd.DataFrame({"age": np.repeat([1.0, 2.0, 3.0, 4.0], 50)})
    fx = treeanova.decompose(fit(DecisionTreeRegressor(), X, np.repeat([0.0, 2.0, 1.0, 1.5], 50)), X)
    assert mortality.roughness(fx, "age", X) == pytest.approx(2 + 1 + 0.5)
    assert mortality.roughness(fx, "bun", X.assign(bun=X["age"])) == 0.0


def test_changes_of_a_curve_are_relative_to_the_pure_one():
    from sklearn.tree import DecisionTreeRegressor

    X = pd.DataFrame({"age": np.repeat([1.0, 2.0], 50)})
    y = np.repeat([0.0, 2.0], 50)
    fx = treeanova.decompose(fit(DecisionTreeRegressor(), X, y), X)
    double = treeanova.decompose(fit(DecisionTreeRegressor(), X, 3 * y + 1), X)
    kinds = {"raw": double.raw, "uniform": double} | dict.fromkeys(models.DENSITIES[1:], fx)
    moved = mortality.changes(kinds, "age", X)
    assert [change.relative for change in moved.values()] == pytest.approx([0, 2, 2, 2, 2, 2])
    assert [change.largest for change in moved.values()] == pytest.approx([0, 2, 2, 2, 2, 2])
    assert str(moved["auto"]) == "200 % (2.00)"


def test_standard_errors_of_splits_that_share_rows():
    """Nadeau and Bengio: the variance over splits times 1/n + (test rows / training rows)."""
    mean, error = models.mean_and_error(np.array([1.0, 2.0, 3.0]))
    assert (mean, error) == pytest.approx((2.0, np.sqrt(1 / 3 + 1 / 3)))
    assert models.mean_and_error(np.array([1.0])) == (1.0, np.inf)


def test_mass_to_move_out_of_pairs():
    from sklearn.tree import DecisionTreeRegressor

    X = np.array([[0.0, 0], [0, 1], [1, 0], [1, 1]])
    fx = treeanova.decompose(fit(DecisionTreeRegressor(), X, [0.0, 0, 0, 4]), X, density="uniform")
    raw = fx.raw.terms["x0", "x1"].values
    by_hand = np.abs(raw.sum(axis=0) / 4).sum() + np.abs(raw.sum(axis=1) / 4).sum()
    assert models.unpurified_mass(fx) == pytest.approx(by_hand)
    assert models.unpurified_mass(fx) > 0


def test_losses():
    assert simpler.loss([1, 0], np.array([0.0, np.log(3)]), classify=True) == pytest.approx((np.log(2) + np.log(4)) / 2)
    assert simpler.loss([1.0, 3.0], np.array([0.0, 0.0]), classify=False) == 5


def test_strengths_that_depend_on_the_density():
    found, levels = two_levels(XGB2={"uniform": {("sex", "a"): 1.4, ("sex", "b"): 1.6}})
    assert effects.strength_changes(found["XGB2"], levels, ("uniform", "empirical")) == [("sex", "b")]


def test_studies_without_data_say_so(tmp_path, monkeypatch):
    from studies.common import DataMissingError, Settings

    monkeypatch.setenv("TREEANOVA_DATA", str(tmp_path))
    for study in (compas, california, mortality):
        with pytest.raises(DataMissingError, match="set TREEANOVA_DATA"):
            study.run(dataclasses.replace(Settings(), quick=True, figures=tmp_path))
