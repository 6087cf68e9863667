"""Rules of the studies on data and on forests, on measurements made up for the purpose; their limits are the page's."""

from __future__ import annotations

import json
import pathlib

import numpy as np
import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("pandas")

import treeanova
from studies import california, compas, estimators, mortality, simpler, snps
from studies import compas_effects as effects
from studies.models import DENSITIES, PAPERS, common_bins, pure_kinds
from studies.snp_generators import GENERATORS

CLAIMS = pathlib.Path(__file__).resolve().parents[1] / "docs" / "paper" / "claims.json"
WRITTEN = json.loads(CLAIMS.read_text(encoding="utf-8"))
HOLDS = ("holds", "holds")
CONDITION = ("in part", "holds")
PARTLY = ("in part", "in part")
FAILS = ("does not hold", "does not hold")
OPEN = ("undecided", "undecided")


def verdicts_of(claims):
    """Verdicts by key, of claims whose limits are those of the page; measurements made up may lack some numbers."""
    for claim in claims:
        for rule, written in zip(claim.rules, WRITTEN[claim.key]["rules"], strict=True):
            for part in ("holds", "partly", "fails"):
                limits = {(name, sign): limit for name, sign, limit in written[part]}
                assert {(b.name, b.sign): b.limit for b in getattr(rule, part)}.items() <= limits.items()
    return {claim.key: claim.verdicts for claim in claims}


def summit_at(place, value=1.0):
    latitude, longitude = {"ocean": (33.0, -122.0), "land": (41.0, -115.0), "districts": (34.05, -118.24)}[place]
    return california.Summit(value, latitude, longitude, int(place == "districts"), 0.0)


@pytest.mark.parametrize(
    ("raw", "pure", "before", "after"),
    [
        ("ocean", dict.fromkeys(DENSITIES, "land"), HOLDS, HOLDS),
        ("ocean", dict.fromkeys(DENSITIES, "ocean"), HOLDS, FAILS),
        ("ocean", dict.fromkeys(DENSITIES, "ocean") | {"uniform": "districts"}, HOLDS, PARTLY),
        ("land", dict.fromkeys(DENSITIES, "land") | {"auto": "ocean"}, FAILS, HOLDS),  # auto is not the paper's
    ],
)
def test_rule_of_the_ocean(raw, pure, before, after):
    summits = {(100, 0.3, 0): {"raw": summit_at(raw)} | {name: summit_at(place) for name, place in pure.items()}}
    found = verdicts_of(california._ocean_claims(summits))
    assert found == {"ocean-before": before, "ocean-after": after}


@pytest.mark.parametrize(
    ("place", "around", "elsewhere", "origin", "sorted_out"),
    [
        ("ocean", 0.01, 0.5, FAILS, HOLDS),
        ("districts", 0.01, 0.001, HOLDS, PARTLY),
        ("districts", 0.5, 0.5, HOLDS, FAILS),
    ],
)
def test_rule_of_the_cities(place, around, elsewhere, origin, sorted_out):
    refits = {(80, (100, 0.3, k)): california.Refit(10, summit_at("ocean", 5), summit_at(place, 4)) for k in range(3)}
    means = dict.fromkeys(california.METROS, (1.0, around))
    controls = np.tile([1.0, elsewhere], (10, 1))
    measured = california.Measured({}, {}, refits, means, controls, {})
    found = verdicts_of(california._city_claims(measured))
    assert found == {"ocean-origin": origin, "metros-sorted": sorted_out}


@pytest.mark.parametrize(("own", "verdict"), [(-1.0, "holds"), (-2.0, "in part"), (-3.0, "does not hold")])
def test_rule_of_grids(own, verdict):
    grids = {"the model's own": (5, 1.0, own), "10 × 10": (100, 0.5, -2.5), "20 × 20": (400, 0.6, -1.5)}
    found = verdicts_of(california._hooker_claims(grids))
    assert found == {"like-hooker": OPEN, "refined-density": ("undecided", verdict)}


LEVELS = [("sex", "a"), ("sex", "b")]


def compas_values(**values):
    """Values of two levels in four models and two targets, 1 everywhere unless told otherwise."""
    base = {state: dict.fromkeys(LEVELS, 1.0) for state in effects.STATES}
    one = {model: base | values.get(model, {}) for model in effects.MODELS}
    return dict.fromkeys(effects.TARGETS, one)


def test_rules_of_densities():
    calm = compas_values()
    assert verdicts_of(compas._density_claims(calm, LEVELS)) == {"sign-by-density": FAILS, "not-the-signs": FAILS}
    stronger = {"uniform": dict.fromkeys(LEVELS, 3.0)}
    found = compas._density_claims(compas_values(XGB2=stronger, GA2M=stronger), LEVELS)
    assert verdicts_of(found) == {"sign-by-density": PARTLY, "not-the-signs": HOLDS}
    turned = {"uniform": dict.fromkeys(LEVELS, -3.0)}
    found = compas._density_claims(compas_values(XGB2=turned, GA2M=turned), LEVELS)
    assert verdicts_of(found) == {"sign-by-density": HOLDS, "not-the-signs": PARTLY}


def test_rules_of_contradictions():
    against = {"raw": dict.fromkeys(LEVELS, -1.0)}
    corrected = compas._contradiction_claim(compas_values(XGB=against), LEVELS)
    assert verdicts_of([corrected]) == {"contradictions": HOLDS}
    assert corrected.numbers["raw"] == 2 * 3 * 2  # targets, other models, levels
    still = against | {"uniform": dict.fromkeys(LEVELS, -1.0)}
    assert compas._contradiction_claim(compas_values(XGB=still), LEVELS).verdicts == PARTLY
    assert compas._contradiction_claim(compas_values(), LEVELS).verdicts == FAILS


def test_rules_of_xgb():
    masks = dict.fromkeys(LEVELS, np.ones(60, bool))
    minus, far = dict.fromkeys(LEVELS, -1.0), dict.fromkeys(LEVELS, 9.0)
    found = compas._xgb_claims(compas_values(XGB={"raw": minus, "centred": minus}), masks)
    assert verdicts_of(found) == {"xgb-signs": HOLDS, "xgb2-consistent": HOLDS}
    found = compas._xgb_claims(compas_values(XGB={"raw": minus}, XGB2={"uniform": far}), masks)
    assert verdicts_of(found) == {"xgb-signs": ("holds", "does not hold"), "xgb2-consistent": PARTLY}
    found = compas._xgb_claims(compas_values(XGB2=dict.fromkeys(DENSITIES, far)), masks)
    assert verdicts_of(found) == {"xgb-signs": FAILS, "xgb2-consistent": FAILS}


class NoPairs:
    """A decomposition with nothing in its pairs."""

    terms: dict = {}  # noqa: RUF012


@pytest.mark.parametrize(
    ("gains", "better"), [([0.1, 0.1, 0.11], HOLDS), ([-0.1, -0.1, -0.11], FAILS), ([0.1, -0.1, 0.05], OPEN)]
)
def test_rules_of_models_as_a_whole(gains, better):
    tests = {"GA2M": np.array([[0.8, 0.5, 0.5 + gain] for gain in gains])}
    shares = {"XGB2": 0.9, "GA2M": 0.1, "XGB": 0.0}
    changes = {model: dict.fromkeys(DENSITIES, share) for model, share in shares.items()}
    fitted = dict.fromkeys(effects.MODELS, NoPairs())
    one = effects.Measured(fitted, {}, changes, {}, tests, NoPairs())
    measured = dict.fromkeys(effects.TARGETS, one)
    assert verdicts_of(compas._stage_claims(measured))["better-mains"] == better
    found = verdicts_of([compas._change_claim(measured), compas._large_change_claim(measured)])
    assert found == {"mains-change": CONDITION, "large-changes": CONDITION}


@pytest.mark.parametrize(("gap", "verdict"), [(3.0, "holds"), (1.17, "undecided"), (1.0, "does not hold")])
def test_rule_of_audits(gap, verdict):
    """Refits of s.d. 0.1: differences of two to three of it cannot be told from two."""
    levels = {effects.BLACK: 1.0, effects.WHITE: 0.0}
    base = {state: levels | {effects.BLACK: gap if state == "uniform" else 1.0} for state in effects.STATES}
    found = dict.fromkeys(effects.MODELS, base) | {"GA2M": dict.fromkeys(effects.STATES, levels)}
    refits = {effects.BLACK: np.tile([0.0, 0.1, 0.2], 7), effects.WHITE: np.zeros(21)}
    claim = compas._audit_claim({"decile_score": effects.Measured({}, found, {}, refits, {})})
    assert verdicts_of([claim]) == {"audits": (verdict, verdict)}


@pytest.mark.parametrize(
    ("relative", "largest", "verdicts"),
    [
        (0.01, 0.01, ("holds", "holds", "does not hold")),
        (0.1, 0.2, ("in part", "in part", "does not hold")),
        (0.5, 0.2, ("does not hold", "does not hold", "holds")),
    ],
)
def test_rules_of_risk_curves(relative, largest, verdicts):
    change = mortality.Change(relative, largest)
    moved = {
        (name, model): dict.fromkeys((*DENSITIES, "between"), change)
        for name in ("age", "bun")
        for model in mortality.PAIRED
    }
    found = verdicts_of(mortality._age_claims(moved))
    assert tuple(found[key][1] for key in ("age-imperceptible", "age-density", "age-xgb2")) == verdicts
    assert {printed for printed, _ in found.values()} == {"undecided"}  # MIMIC-III is not there


class Step:
    """A curve of BUN that changes by so much from 40 to 60, in a model with three pairs of it."""

    def __init__(self, change):
        keys = [("bun",), ("age",), ("sod",), ("bun", "age"), ("bun", "sod"), ("bun", "ph")]
        self.terms = dict.fromkeys([*keys, "bun"], self)  # a decomposition takes both a name and a tuple
        self.axes, self.values = [self], np.array([0.0, change])

    def index(self, points):
        return (np.asarray(points) > 50).astype(int)


def test_common_bins_are_those_of_a_model_that_has_no_others():
    import pandas as pd

    rng = np.random.default_rng(0)
    tables = {("age", "b"): rng.normal(size=(4, 3)), "age": np.arange(4.0), "b": np.zeros(3)}
    X = pd.DataFrame({"age": rng.integers(4, size=300), "b": rng.integers(3, size=300)})
    X["b"] = np.minimum(X["b"], X["age"])
    fx = treeanova.decompose(treeanova.model.Effects.from_tables(tables), X)
    kinds = {"raw": fx.raw} | pure_kinds(fx)
    expected = mortality.changes(kinds, "age", X)
    moved, apart = common_bins(kinds, "age", X)
    assert moved == pytest.approx({density: expected[density].largest for density in PAPERS})
    assert apart == pytest.approx(expected["between"].largest)


@pytest.mark.parametrize(
    ("steps", "largest", "verdicts"),
    [
        ((-0.2, 0.2), 0.5, ("holds", "holds", "holds")),
        ((-0.2, -0.2), 0.5, ("holds", "holds", "in part")),
        ((-0.2, -0.2), 0.05, ("does not hold", "does not hold", "does not hold")),
    ],
)
def test_rules_of_bun(steps, largest, verdicts):
    kinds = {density: Step(steps[density == "uniform"]) for density in (*DENSITIES, "raw")}
    bun, age = mortality.Change(largest, largest), mortality.Change(0.1, 0.1)
    moved = {(name, model): dict.fromkeys((*DENSITIES, "between"), change)
             for name, change in (("bun", bun), ("age", age)) for model in mortality.PAIRED}  # fmt: skip
    found = verdicts_of(mortality._bun_claims(dict.fromkeys(mortality.PAIRED, kinds), moved))
    assert tuple(found[key][1] for key in ("bun-magnified", "bun-altered", "bun-near-50")) == verdicts


@pytest.mark.parametrize(
    ("losses", "pair", "verdicts"),
    [
        ([[0.5, 0.4, 0.3, 0.3, 0.4]] * 2, 0.2, (HOLDS, HOLDS)),
        ([[0.5, 0.4, 0.4, 0.4, 0.3]] * 2, 0.8, (PARTLY, FAILS)),
        ([[0.5, 0.4, 0.4, 0.3, 0.4], [0.5, 0.4, 0.4, 0.5, 0.4]], 0.8, (PARTLY, OPEN)),
    ],
)
def test_rules_of_interactions(losses, pair, verdicts):
    tests = {"XGB2": np.array([[0, 0, 0, *some] for some in losses], float)}
    found = verdicts_of(mortality._variance_claims(mortality.Measured({}, tests, {"XGB2": (0.9, pair)})))
    assert (found["high-variance"], found["regularize"]) == verdicts


@pytest.mark.parametrize(
    ("change", "simple", "accurate"),
    [
        (0.01, "holds", "holds"),
        (-0.002, "holds", "does not hold"),
        (-0.5, "does not hold", "does not hold"),
    ],
)
def test_rules_of_simpler_main_effects(change, simple, accurate):
    losses = np.array([[1.0, 0.5, 0.5 - change + 1e-5 * k] for k in (-1, 0, 1)])
    cases = {"XGB2": simpler.Case(dict.fromkeys(simpler.PARTS, losses), 1, 2, (30.0, 10.0))}
    found = verdicts_of(simpler.claims(cases))
    assert found == {
        "less-smooth": HOLDS,
        "can-be-simplified": ("undecided", simple),
        "more-accurate": ("undecided", accurate),
    }


def test_a_null_result_on_simpler_main_effects_is_undecided():
    losses = np.array([[1.0, 0.5, 0.5 + 0.02 * k] for k in (-1, 0, 1)])  # gains of 4, 0, −4 percent
    cases = {"XGB2": simpler.Case(dict.fromkeys(simpler.PARTS, losses), 1, 2, (30.0, 10.0))}
    found = verdicts_of(simpler.claims(cases))
    assert (found["can-be-simplified"], found["more-accurate"]) == (OPEN, OPEN)


def test_rules_of_estimators():
    errors = {name: {300: 0.6, 9_000: last} for name, last in zip(DENSITIES, (0.6, 0.1, 0.5, 0.2, 0.1), strict=True)}
    sizes = dict(zip((*DENSITIES, "truth"), (0.4, 0.2, 0.3, 0.3, 0.2, 0.2), strict=True))
    found = verdicts_of(estimators.claims(estimators.Errors(errors, 0.3, sizes)))
    assert found == {"needs-density": HOLDS, "dramatically": HOLDS}
    even = estimators.Errors({name: {300: 0.2, 9_000: 0.2} for name in DENSITIES}, 0.3, dict.fromkeys(sizes, 0.2))
    found = verdicts_of(estimators.claims(even))
    assert found == {"needs-density": FAILS, "dramatically": FAILS}


@pytest.mark.parametrize(
    ("slope", "raw", "verdicts"), [(1.0, 0.9, ("holds", HOLDS)), (0.0, 0.3, ("does not hold", PARTLY))]
)
def test_rules_of_forests(slope, raw, verdicts):
    found = {}
    for where in snps.FITTED:
        for name, (_, _, sign) in GENERATORS.items():
            strength = sign * (1 + slope * snps.main_strength(name, snps.LOCI[where]))
            for words in snps.DEPTHS:
                found[where, name, words] = strength + np.array([-0.001, 0.0, 0.001])
    judged_forests = verdicts_of(snps._forest_claims(found, dict.fromkeys(snps.FITTED, (0.2, raw))))
    assert (judged_forests["preference"], judged_forests["only-after"]) == (("undecided", verdicts[0]), verdicts[1])
