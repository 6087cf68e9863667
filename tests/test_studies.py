"""Known values of the studies of the paper: closed forms and counts by hand, not what the studies themselves print."""

from __future__ import annotations

import ast
import math
import os
import pathlib
import re
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest

import treeanova
from studies import (
    algorithm,
    common,
    convergence,
    corollaries,
    estimators,
    forms,
    logarithm,
    mass_moving,
    multiplicative,
    proofs,
    tensors,
    uniqueness,
)
from studies import snp_generators as snps
from studies.__main__ import NAMES, main
from studies.judging import Claim, Rule, below, undecided
from studies.page import details, page
from tests.support.training import fit

ROOT = pathlib.Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("form", forms.FORMS.values(), ids=list(forms.FORMS))
def test_each_form_of_figure_1_is_xor_and_purifies_to_it(form):
    xor = np.array([[-0.25, 0.25], [0.25, -0.25]])
    np.testing.assert_allclose(form.output(), xor, atol=1e-15)
    pure = forms.purified(form, forms.FAIR)
    np.testing.assert_allclose(pure.table, xor, atol=1e-15)
    assert abs(pure.intercept) + np.abs(pure.first).max() + np.abs(pure.second).max() < 1e-15


def test_text_formulas_of_and_and_or_need_a_xor_of_plus_minus_one():
    assert forms.text_formula_gap(1.0) == 0
    assert forms.text_formula_gap(0.25) == pytest.approx(3 / 16)  # off by 0.25 (1 − 0.25) in every cell


def test_effect_coding_is_double_centring():
    table = np.random.default_rng(1).normal(size=(3, 4))
    centred = table - table.mean(axis=0) - table.mean(axis=1, keepdims=True) + table.mean()
    np.testing.assert_allclose(forms.effect_coded(table), centred, atol=1e-12)


def test_variances_of_the_multiplicative_forms_match_draws():
    rho, alpha, beta = 0.6, 0.7, -1.3
    draws = np.random.default_rng(0).multivariate_normal([0, 0], [[1, rho], [rho, 1]], size=200_000, method="cholesky")
    first, second = draws.T
    terms = (1 + beta) * first, (1 + alpha) * second, (first - alpha) * (second - beta)
    np.testing.assert_allclose(
        [term.var() for term in terms], multiplicative.form_variances(alpha, beta, rho), rtol=0.02
    )


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.8])
def test_pure_variances_of_the_multiplicative_model(rho):
    np.testing.assert_allclose(multiplicative.measured_variances(rho), multiplicative.pure_variances(rho), rtol=1e-5)


def test_theorem_2_fails_on_nearly_diagonal_weights():
    case = mass_moving.measure(np.array([[1, 0.01], [0.01, 1]]))
    assert case.correlation == pytest.approx(0.99 / 1.01)
    assert case.passes > 900  # log2(1e10) is 33
    ratio = case.trace[401] / case.trace[399]
    assert ratio == pytest.approx(case.correlation**2, rel=1e-6)
    assert case.direct_mass < 1e-14


def test_uniform_weights_take_one_sweep_and_the_printed_step_does_not():
    table, weights = mass_moving.draw("uniform", 25, 10, 0)
    trace = mass_moving.trace_of(table, weights)
    assert trace[2] < 1e-14 * trace[0]
    assert mass_moving.left_as_printed(table, weights) == pytest.approx(0.96, abs=1e-3)  # each pass takes 1/25
    assert mass_moving.mass_of_text(table, weights) == pytest.approx(mass_moving.mass(table, weights) / 25)


def test_bounds_count_draws_above_them():
    trace = np.array([[1, 0.5, 0.25, 0.125, 0.0625], [1, 0.4, 0.3, 0.21, 0.1]])
    assert mass_moving.share_above(trace, 0.5, 1) == 0.5
    assert mass_moving.share_not_halved(trace) == 0.5


def test_passes_and_moved_mass_of_a_trace():
    trace = np.array([[1.0, 0.5, 0.1, 1e-11], [1.0, 0.9, 0.4, 0.2]])
    np.testing.assert_allclose(convergence.moved(trace), [0.9, 0.6])
    assert convergence.n_passes(trace).tolist() == [3, 4]


def test_order_of_axes_matters_to_mass_moving_only_where_the_support_falls_apart():
    plain, ours = corollaries.order_gap(np.eye(2))
    corner, other = np.diag(np.random.default_rng(0).normal(size=(2, 2)))
    assert plain == pytest.approx(abs(corner - other))  # by hand: rows first takes T00 out of row 0, columns first T11
    assert ours < 1e-15
    assert max(corollaries.order_gap(np.array([[2.0, 1], [1, 3]]))) < 1e-14


def test_linearity_needs_coefficients_of_sum_one_because_main_effects_are_carried():
    """By hand: with T_a in every call the right side has Σα T_a, so main effects differ by (Σα − 1) T_a."""
    one = corollaries.linearity_gap(np.array([0.25, 0.75]), n_problems=2)
    assert max(one) < 1e-13
    other = corollaries.linearity_gap(np.array([2.0, 1.0]), n_problems=1)
    carried = np.random.default_rng(0).normal(size=50)  # T_a, then T_b, as the problem of seed 0 draws them
    assert other.pair < 1e-13
    assert other.main == pytest.approx(2 * np.abs(carried).max())


def test_pure_functions_are_as_many_as_cells_unless_the_support_falls_apart():
    full = uniqueness.count_spaces(uniqueness.random_weights(3))
    assert full.n_functions == full.rank == 36
    split = uniqueness.count_spaces(uniqueness.split_weights())
    assert split.rank == 2 * 1 * 3 + 2 * 2 * 3  # the cells with mass
    assert split.n_functions > split.rank


def test_a_pure_pair_has_one_dimension_less_on_each_side():
    weights = uniqueness.random_weights(0)
    assert uniqueness.pure_space((0, 1), weights).shape == (36, 3 * 2)
    assert uniqueness.orthogonal_space((0, 1, 2), weights).shape == (36, 3 * 2 * 2)
    assert uniqueness.orthogonal_space((0,), weights, with_itself=True).shape == (36, 0)


def test_variances_are_least_where_features_are_independent():
    assert max(uniqueness.variance_ratios(0, dependence=0)) == pytest.approx(1, abs=1e-9)
    some = uniqueness.variance_ratios(1, dependence=1)
    assert (some.highest, some.each_pair) == pytest.approx((1, 1))
    assert some.all_pairs > 1 + 1e-6


def test_algorithm_2_by_hand_on_a_product_density():
    """Independent features of order 3: the pure terms are differences of means."""
    weights = np.einsum("i,j,k->ijk", [0.2, 0.8], [0.5, 0.5], [0.1, 0.9])
    function = np.arange(8.0).reshape(2, 2, 2) ** 2
    given = {key: np.zeros(tensor.shape) for key, tensor in tensors.random_tensors((2, 2, 2), 0).items()}
    pure, traces = tensors.purify_tensors(given | {(0, 1, 2): function}, weights)
    mean = (weights * function).sum()
    first = (weights * function).sum(axis=(1, 2)) / [0.2, 0.8]
    assert pure[()] == pytest.approx(mean)
    np.testing.assert_allclose(pure[0,], first - mean, atol=1e-12)
    assert len(traces[0, 1, 2]) == 4  # one pass per feature
    np.testing.assert_allclose(tensors.total(pure, (2, 2, 2)), function, atol=1e-12)


def test_printed_step_takes_a_slice_sum_and_still_gets_there():
    assert algorithm.printed_gap(400, size=4) < 1e-12
    assert algorithm.printed_gap(2, size=4) > 0.1


def test_rows_of_the_smooth_function_have_its_density():
    rows = algorithm.draw_rows(100_000, 0)
    means = rows.mean(axis=0), (rows[:, 0] * rows[:, 1]).mean()
    np.testing.assert_allclose(means[0], 0.5, atol=0.005)
    assert means[1] == pytest.approx(1 / 4 + 1 / 36, abs=0.002)  # ∫ xy (1 + (1−2x)(1−2y))


def test_lemma_3_is_an_equality_from_the_second_pass_on():
    weights = proofs.random_weights(5)
    assert proofs.lemma_gap(7, weights) < 1e-10
    state = proofs.start(7, weights, rows_are_zero=False)
    assert abs(proofs.lemma(weights, state.columns) - state.after) > 1e-3 * state.after


def test_the_proof_of_theorem_2_breaks_at_its_fourth_line():
    weights = np.array([[1, 0.01], [0.01, 1]]) / 2.02
    state = proofs.start(3, weights)
    values = proofs.lines_of_proof(weights, state)
    np.testing.assert_allclose(values[:4], state.after)
    assert values[4:8] == [0, 0, 0, 0]
    assert values[8] == pytest.approx(state.before / 2 * 2 * 0.99 / 1.01)  # two columns, |w11/w1. − w21/w2.| each
    assert proofs.broken_lines(values) == [4, 9]
    assert state.after / state.before == pytest.approx((0.99 / 1.01) ** 2)


def test_counts_plus_one_lies_between_uniform_and_empirical():
    X = np.array([[0.0, 0], [0, 0], [0, 1], [1, 1]])
    from sklearn.tree import DecisionTreeRegressor

    fx = treeanova.decompose(fit(DecisionTreeRegressor(random_state=0), X, [0.0, 0, 1, 4]), X)
    tables = {name: fx.with_density(kind).density.table((0, 1)) for name, kind in estimators.DENSITY.items()}
    np.testing.assert_allclose(tables["counts + 1"] * 8, [[3, 2], [1, 2]])
    np.testing.assert_allclose(tables["half-half"] * 8, [[3, 2], [1, 2]])  # as many rows as cells: both readings agree


def test_logarithm_has_the_closed_form():
    pure = logarithm.purified(0.3, n_bins=20)
    _, x = logarithm.cell_means(20)
    np.testing.assert_allclose(pure.terms[0, 1], 0.3 * np.outer(x - 0.5, x - 0.5), atol=1e-14)
    assert pure.intercept == pytest.approx(0.3 / 4 - 2 * 0.7)
    assert logarithm.exact_share(1.0) == pytest.approx(1 / 7)
    draws = 1 - np.random.default_rng(0).random(400_000)
    assert logarithm.exact_main(draws, 0.3).mean() == pytest.approx(0, abs=0.005)


def test_snp_coefficients_are_those_of_expanding_the_product():
    for locus in snps.LOCI.values():
        for name, (b, c, d) in snps.GENERATORS.items():
            assert snps.pure_coefficients(name, locus) == (b + d * locus.mean, c + d * locus.mean, d)
    assert snps.hardy_weinberg(Fraction(1, 4)).mean == Fraction(1, 2)
    assert snps.hardy_weinberg(Fraction(1, 4)).variance == Fraction(3, 8)
    assert snps.xor_coefficient("Interaction only") == Fraction(-1, 4)
    assert snps.purify_gap() < 1e-14


def test_numbers_and_tables():
    written = [common.number(x) for x in (0.0, -0.0, 3, -0.25, 1234.5, 2e-16, 0.99999, -math.inf)]
    assert written == ["0", "0", "3", "−0.250", "1,234", "2.0e−16", "1.000", "−∞"]
    assert common.percent(0.1234) == "12.3 %"
    assert common.markdown_table([("a|b", 0.5)], ("x", "y")) == "| x | y |\n| --- | --- |\n| a\\|b | 0.500 |"


@pytest.mark.parametrize("name", NAMES)
def test_no_study_imports_another(name):
    tree = ast.parse((ROOT / "studies" / f"{name}.py").read_text(encoding="utf-8"))
    modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not modules & {f"studies.{other}" for other in NAMES}


def test_bars_of_nearly_zero_are_dashes():
    pytest.importorskip("matplotlib")
    plt = common.pyplot()
    fig, ax = plt.subplots()
    common.draw_bars(ax, [0, 1, 2], [0.5, 0.0, -0.01], 0.4, color="#333333", label="a", least=0.02)
    (dashes,) = ax.collections
    np.testing.assert_allclose(dashes.get_segments(), [[[0.8, 0], [1.2, 0]], [[1.8, 0], [2.2, 0]]])
    assert [bar.get_height() for bar in ax.patches] == [0.5, 0.0, -0.01]
    plt.close(fig)


def test_signed_numbers():
    assert [common.signed(value) for value in (0.256, -0.25)] == ["+0.26", "−0.25"]


def claim(key, value, **changes):
    rule = Rule((below("gap", 1),), (below("gap", 2),))
    return Claim(key, "Theorem 9", "quoted words", f"Sentence {key}.", "The gap.", {"gap": value}, rule, **changes)


def test_page_counts_both_verdicts_and_has_one_sentence_per_claim():
    lacking = claim("d", 5, meant=undecided("no data"), reading="of data we lack", stand_in="other data")
    section = common.Section("A study", "Its body.", (claim("a", 0), claim("b", 1.5), claim("c", 5), lacking))
    text = page([section])
    assert "4 claims. As printed: 1 holds, 1 in part, 2 does not hold, 0 undecided." in text
    assert "As meant: 1 holds, 1 in part, 1 does not hold, 1 undecided. 1 are judged" in text
    assert "| 3 | Theorem 9 | Sentence c. | **does not hold** | **does not hold** |" in text
    assert "| 4 | Theorem 9 | Sentence d. | **does not hold** | **undecided** (other data) |" in text
    more = details([section])
    assert "Sentence" not in more
    assert "**2. Theorem 9.** “quoted words”" in more
    assert "*Rule:* holds if gap < 1; in part if gap < 2; does not hold otherwise." in more
    assert "*As meant* (of data we lack): undecided: no data." in more
    assert "“does not hold” with a limit of 1.50 instead of 2 for gap" in more


def test_figures_are_numbered_by_appearance():
    body = "See Figure @b.\n\n![x](a.png)\n\n**Figure @a.** One.\n\n![x](b.png)\n\n**Figure @b.** Two."
    text = details([common.Section("A study", body)])
    assert "See Figure 2." in text
    assert text.index("**Figure 1.** One.") < text.index("**Figure 2.** Two.")


def test_the_printed_loop_ends_by_a_tolerance_only():
    assert algorithm.sweeps_to_exact_zero(300) == 0
    assert algorithm._ends_within_tolerance(0, 2_000)


def test_the_equation_of_corollary_2_1_needs_weights_that_are_permuted_too():
    assert corollaries.equation_gap(is_weight_permuted=True) < 1e-12
    assert corollaries.equation_gap(is_weight_permuted=False) > 0.1


def test_sobol_variances_by_hand():
    """Of (x + y + z)-like independent parts nothing is left over; a dependent density breaks the equality."""
    assert uniqueness.sobol_gap(uniqueness.random_weights(4, dependence=0)) < 1e-12
    assert uniqueness.sobol_gap(uniqueness.random_weights(4)) > 1e-3


def test_effect_codings_intercept_is_the_mean_of_levels():
    assert forms.coded_intercept_gap(90, 10) == pytest.approx(0.5 - 0.1)
    assert forms.coded_intercept_gap(20, 20) == pytest.approx(0, abs=1e-12)
    table = np.random.default_rng(2).normal(size=(3, 4))
    centred = table - table.mean(axis=0) - table.mean(axis=1, keepdims=True) + table.mean()
    np.testing.assert_allclose(forms.library_coded(table), centred, atol=1e-12)


def test_second_moments_of_the_multiplicative_model_lose_rank_at_correlation_one():
    draws = np.random.default_rng(0).multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]], size=400_000, method="cholesky")
    columns = np.column_stack([np.ones(len(draws)), draws, draws.prod(axis=1)])
    least = np.linalg.eigvalsh(columns.T @ columns / len(draws))[0]
    assert multiplicative.least_eigenvalue(0.5) == pytest.approx(least, abs=0.01)
    assert multiplicative.least_eigenvalue(1.0) == pytest.approx(0, abs=1e-12)


def test_study_without_its_data_is_skipped(tmp_path, monkeypatch, capsys):
    pytest.importorskip("pandas")
    monkeypatch.setenv("TREEANOVA_DATA", str(tmp_path))
    main(["--quick", "--only", "california", "--out", str(tmp_path / "out")])
    assert "skipped: no file california_housing.csv.gz" in capsys.readouterr().out
    assert "Skipped: no file" in (tmp_path / "out" / "paper-details.md").read_text(encoding="utf-8")


@pytest.mark.thorough
def test_command_line_writes_page_and_figures(tmp_path):
    pytest.importorskip("matplotlib")
    command = [sys.executable, "-m", "studies", "--quick", "--only", "forms", "--out", str(tmp_path)]
    environment = {**os.environ, "MPLCONFIGDIR": str(tmp_path)}
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    assert re.search(r"forms +\d+\.\d s +11 claims", run.stdout)
    text = (tmp_path / "paper-details.md").read_text(encoding="utf-8")
    assert re.search("^## Booleans and effect coding", text, flags=re.MULTILINE)
    for link in re.findall(r"!\[.*?\]\((.*?)\)", text):
        assert (tmp_path / link).read_bytes().startswith(b"\x89PNG")
