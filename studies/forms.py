"""Figure 1 and effect coding: four ways to write one function of two Booleans, and the one that purification gives."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import treeanova
from studies.common import WIDTH, Section, Settings, diverging, markdown_table, number, paragraphs, pyplot
from studies.judging import Claim, below, equal, holds_if
from treeanova.core.arrays import Floats


class Form(NamedTuple):
    """An additive model of two Booleans: intercept, main effects and the table of X1 (rows) and X2 (columns)."""

    intercept: float
    first: Floats
    second: Floats
    table: Floats

    def output(self) -> Floats:
        """The function's value at the four cells."""
        return self.intercept + self.first[:, None] + self.second + self.table

    def gap(self, other: Form) -> float:
        """The largest difference of an entry to that of another form."""
        return float(np.abs(self.entries() - other.entries()).max())

    def entries(self) -> Floats:
        """All numbers of the form in a row."""
        return np.concatenate([[self.intercept], self.first, self.second, self.table.ravel()])


def _form(intercept: float, main: list[float], table: list[list[float]]) -> Form:
    return Form(intercept, np.array(main), np.array(main), np.array(table))


# The paper calls (a) AND and (b) OR; the table of (a) is that of AND with the opposite sign.
FORMS = {
    "(a) AND": _form(0.25, [-0.25, 0.25], [[0, 0], [0, -1]]),
    "(b) OR": _form(-0.75, [0.25, -0.25], [[0, 1], [1, 1]]),
    "(c) XOR": _form(-0.25, [0, 0], [[0, 0.5], [0.5, 0]]),
    "(d) centred XOR": _form(0.0, [0, 0], [[-0.25, 0.25], [0.25, -0.25]]),
}
_CAPTION = """The paper's Figure 1, four forms of one function of two Booleans, and what they purify to with equal
weights. Each panel: the intercept f0 at the bottom left, the main effect f1 of X1 above it, f2 of X2 to its right,
the table f3 of both. (a) to (d) as the paper writes them; (e) to (h) the same, purified."""
AND, OR = np.array([[0.0, 0], [0, 1]]), np.array([[0.0, 1], [1, 1]])
FAIR = np.full((2, 2), 0.25)
DEPENDENT = np.array([[0.4, 0.1], [0.2, 0.3]])


def purified(form: Form, weights: Floats) -> Form:
    """The pure form: what is taken out of the table goes to the main effects, and from these to the intercept."""
    scores = form.table + form.first[:, None] + form.second
    pure = treeanova.purify(scores, weights)
    return Form(form.intercept + float(pure.intercept), pure.terms[0,], pure.terms[1,], pure.terms[0, 1])


def effect_coded(scores: Floats) -> Floats:
    """The interaction of a table by effect coding: least squares on products of columns I(x = v) − I(x = first)."""
    codes = [np.vstack([-np.ones(size - 1), np.eye(size - 1)]) for size in scores.shape]
    full = [np.hstack([np.ones((len(code), 1)), code]) for code in codes]
    design = np.kron(*full)
    fit = np.linalg.lstsq(design, scores.ravel(), rcond=None)[0].reshape(full[0].shape[1], full[1].shape[1])
    interaction: Floats = codes[0] @ fit[1:, 1:] @ codes[1].T
    return interaction


def text_formula_gap(scale: float) -> float:
    """How far the text's formulas of AND and OR are off when the centred XOR takes the values ±scale."""
    xor = scale * np.array([[-1.0, 1], [1, -1]])
    mains = 0.5 * (np.arange(2)[:, None] - 0.5) + 0.5 * (np.arange(2) - 0.5)
    return float(max(np.abs(-0.25 * xor + mains + 0.25 - AND).max(), np.abs(0.25 * xor + mains + 0.75 - OR).max()))


def reference_gap() -> float:
    """Reference coding by least squares: distance of the intercept from the mean outcome of the reference cell."""
    rng = np.random.default_rng(0)
    cells = rng.integers(4, size=500)
    x, outcome = np.column_stack([cells // 2, cells % 2]), rng.normal(size=500) + cells
    design = np.column_stack([np.ones(500), x, x.prod(axis=1)])
    fitted = np.linalg.lstsq(design, outcome, rcond=None)[0]
    return float(abs(fitted[0] - outcome[cells == 0].mean()))


def library_coded(scores: Floats) -> Floats:
    """The interaction of a table by the library's effect coding."""
    effects = treeanova.model.Effects.from_tables({("a", "b"): scores})
    return np.asarray(treeanova.decompose(effects, density="effect-coding").terms["a", "b"].values)


def coded_intercept_gap(n_first: int, n_second: int) -> float:
    """Distance of β₀ from the mean outcome: rows of two levels with outcomes 0 and 1, codes −1 and 1."""
    code = np.repeat([-1.0, 1.0], [n_first, n_second])
    outcome = (code > 0).astype(float)
    fitted = np.linalg.lstsq(np.column_stack([np.ones(len(code)), code]), outcome, rcond=None)[0]
    return float(abs(fitted[0] - outcome.mean()))


def continuous_coding_gap() -> float:
    """Boosted trees on two continuous features: the interaction by effect coding of its bins, and as purified."""
    from xgboost import XGBRegressor  # noqa: PLC0415

    X = np.random.default_rng(0).random((2_000, 2))
    model = XGBRegressor(n_estimators=10, max_depth=2, n_jobs=1).fit(X, np.sin(6 * X[:, 0]) * X[:, 1])
    fx = treeanova.decompose(model, X, density="effect-coding", feature_names=["a", "b"], n_jobs=1)
    middles = []
    for name in ("a", "b"):
        ends = np.clip(fx.terms[name].axes[0].edges, 0, 1)
        middles.append((ends[1:] + ends[:-1]) / 2)
    rows = np.stack(np.meshgrid(*middles, indexing="ij"), axis=-1).reshape(-1, 2)
    scores = model.predict(rows, output_margin=True).reshape([len(some) for some in middles]).astype(float)
    found = fx.term_values(rows, ("a", "b")).reshape(scores.shape)
    return float(np.abs(effect_coded(scores) - found).max())


def run(settings: Settings) -> Section:
    """The study of Figure 1 and of effect coding."""
    fair = {name: purified(form, FAIR) for name, form in FORMS.items()}
    skewed = [purified(form, DEPENDENT) for form in FORMS.values()]
    body = paragraphs(
        "Four additive models of two Booleans, as the paper writes them (top) and purified with equal weights "
        "(bottom): the intercept f0, the main effects f1 and f2, the interaction f3.",
        settings.save(_figure(fair), "forms", "Four forms of one function, before and after purification", _CAPTION),
        f"With weights P(0,0), P(0,1), P(1,0), P(1,1) = {', '.join(f'{w:g}' for w in DEPENDENT.ravel())} the same "
        "function has another pure form, the same for all four:",
        _skewed_table(skewed[0]),
        "Every pure interaction of two Booleans is a constant divided by ± the probability of the cell: it has the "
        "signs of XOR, but equal sizes only where all four cells are equally likely.",
    )
    return Section("Booleans and effect coding: Section 1.1, Figure 1, Section 4.1", body, claims(fair, skewed))


def claims(fair: dict[str, Form], skewed: list[Form]) -> tuple[Claim, ...]:
    """The claims of Sections 1.1 and 4.1, judged."""
    return (*_figure_claims(fair, skewed), *_logic_claims(skewed[0]), *_coding_claims(), *_average_claims())


EXACT = 1e-12  # rounding


def _figure_claims(fair: dict[str, Form], skewed: list[Form]) -> tuple[Claim, ...]:
    canonical = FORMS["(d) centred XOR"]
    outputs = max(float(np.abs(form.output() - canonical.output()).max()) for form in FORMS.values())
    gaps = {
        "gap": max(form.gap(canonical) for form in fair.values()),
        "gap with other weights": max(form.gap(canonical) for form in skewed),
        "gap among the four": max(form.gap(skewed[0]) for form in skewed),
    }
    return (
        Claim(
            "same-function",
            "Figure 1",
            "all four models represent the same function and produce identical outputs",
            "The four models give the same output for all four inputs.",
            "Largest difference of two outputs.",
            {"gap": outputs},
            holds_if(below("gap", EXACT)),
        ),
        Claim(
            "canonical-form",
            "Figure 1",
            "The fourth model (d) is the purified canonical form returned by our algorithm",
            "All four purify to (d) with the uniform weights of Section 4.1; with other weights, which the figure does "
            "not exclude, they agree on another form.",
            "Largest difference of an entry to (d) after purification with equal weights, and with weights 0.4, 0.1, "
            "0.2, "
            "0.3; and among the four with these.",
            gaps,
            holds_if(below("gap", EXACT), below("gap with other weights", EXACT), partly=(below("gap", EXACT),)),
            holds_if(below("gap", EXACT)),
            "uniform weights",
        ),
    )


def _logic_claims(skewed: Form) -> tuple[Claim, ...]:
    first, second = (treeanova.purify(table, FAIR).terms[0, 1] for table in (AND, OR))
    sizes, signs, even = np.abs(skewed.table), np.sign(skewed.table), np.abs(first)
    xor = np.sign(FORMS["(d) centred XOR"].table)
    same = float(min((signs == xor).mean(), 1) if signs[0, 0] == xor[0, 0] else (signs == -xor).mean())
    return (
        Claim(
            "and-or-formulas",
            "Section 1.1, footnote 1",
            "X1 ∧ X2 = −0.25(X1 ⊕ X2) + 0.5(X1−0.5) + 0.5(X2−0.5) + 0.25 … ⊕ represents the centered XOR depicted in "
            "Fig. "
            "1d",
            "The formulas of AND and OR are right for a XOR of ±1; with the ±0.25 of Figure 1d, to which the footnote "
            "refers, they are not.",
            "Largest error of both formulas at the four inputs, with ⊕ of ±0.25 and of ±1.",
            {"error with ±0.25": text_formula_gap(0.25), "error with ±1": text_formula_gap(1.0)},
            holds_if(below("error with ±0.25", EXACT)),
            holds_if(below("error with ±1", EXACT)),
            "⊕ of ±1",
        ),
        Claim(
            "and-is-or",
            "Section 1.1",
            "the interaction effect of AND is identical to the interaction effect of OR",
            "The interactions of AND and OR have the same size but opposite signs.",
            "Largest difference of both pure interactions (equal weights), and largest absolute value of their sum.",
            {"difference": float(np.abs(first - second).max()), "sum": float(np.abs(first + second).max())},
            holds_if(below("difference", EXACT)),
            holds_if(below("sum", EXACT)),
            "identical up to the sign",
            found=f"At (1,1) it is {number(first[1, 1])} for AND and {number(second[1, 1])} for OR. Figure 1a is "
            "therefore −AND plus main effects.",
        ),
        Claim(
            "always-xor",
            "Section 1.1",
            "additive models with interaction effects can always be purified to a weighted XOR interaction",
            "Two Booleans purify to a multiple of XOR if all four inputs are equally likely; with other weights the "
            "interaction has the signs of XOR, but not its equal sizes.",
            "With the weights 0.4, 0.1, 0.2, 0.3: largest over smallest absolute value, and the share of the cells "
            "with the sign of XOR; and largest over smallest for AND with equal weights.",
            {
                "largest / smallest": float(sizes.max() / sizes.min()),
                "largest / smallest, equal weights": float(even.max() / even.min()),
                "signs of XOR": same,
            },
            holds_if(
                below("largest / smallest", 1 + EXACT), partly=(below("largest / smallest, equal weights", 1 + EXACT),)
            ),
            holds_if(equal("signs of XOR", 1)),
            "XOR whose cells are weighted",
        ),
    )


def _coding_claims() -> tuple[Claim, ...]:
    rng = np.random.default_rng(0)
    scores, weights = rng.normal(size=(4, 5)), rng.dirichlet(np.ones(20)).reshape(4, 5)
    coded = effect_coded(scores)
    even = float(np.abs(library_coded(scores) - coded).max())
    uneven = float(np.abs(treeanova.purify(scores, weights).terms[0, 1] - coded).max())
    boolean = float(np.abs(effect_coded(FORMS["(a) AND"].output()) - FORMS["(d) centred XOR"].table).max())
    return (
        Claim(
            "coding-equivalent",
            "Section 4.1",
            "In the context of discrete features (e.g., Fig. 1), fANOVA is equivalent to effect coding",
            "fANOVA of discrete features is equivalent to effect coding with uniform weights only, as the paper says "
            "at the end of the section.",
            "Largest difference of the interaction by effect coding (least squares) and the pure one, for a random 4 "
            "× 5 "
            "table with random and with uniform weights.",
            {"gap": uneven, "gap, uniform": even},
            holds_if(below("gap", EXACT), partly=(below("gap, uniform", EXACT),)),
            holds_if(below("gap, uniform", EXACT)),
            "uniform weights",
        ),
        Claim(
            "coding-uniform",
            "Section 4.1",
            "the use of effect coding exactly corresponds to the fANOVA representation under a uniform weight function",
            'Effect coding by least squares and `density="effect-coding"` give the same interaction.',
            "Largest difference of the two, for the same table.",
            {"gap": even},
            holds_if(below("gap", EXACT)),
        ),
        Claim(
            "coding-boolean",
            "Section 4.1",
            "For two Boolean features this exactly produces the XOR representation of Fig. 1d",
            "Effect coding of the function of Figure 1 gives its form (d).",
            "Largest difference of the interaction by effect coding to the table of (d).",
            {"gap": boolean},
            holds_if(below("gap", EXACT)),
        ),
        Claim(
            "coding-reference",
            "Section 4.1",
            "in which case β₀ becomes the predictor for examples with the reference value",
            "With reference coding the intercept is the mean outcome of the reference cell.",
            "Least squares with an interaction on 500 rows of two Booleans: distance of the intercept from that mean.",
            {"gap": reference_gap()},
            holds_if(below("gap", EXACT)),
        ),
    )


def _average_claims() -> tuple[Claim, ...]:
    return (
        Claim(
            "coding-average",
            "Section 4.1, Eq. 8",
            "An alternative “effect” coding seeks to ensure that β₀ represents the average outcome",
            "β₀ of effect coding is the mean of the levels' means; it is the average outcome only if every level has "
            "as "
            "many rows.",
            "Distance of β₀ from the mean outcome of the rows (0 at one level, 1 at the other), for 90 rows of one "
            "level and 10 of the other, and for 50 of each.",
            {"gap, unequal": coded_intercept_gap(90, 10), "gap, balanced": coded_intercept_gap(50, 50)},
            holds_if(below("gap, unequal", EXACT), partly=(below("gap, balanced", EXACT),)),
            holds_if(below("gap, balanced", EXACT)),
            "balanced levels",
        ),
        Claim(
            "coding-continuous",
            "Section 4.1",
            "This exploits the power of tree-based models to partition continuous variables into discrete bins, "
            "providing "
            "a data-driven method of extending effect coding to continuous variables",
            "On the bins of a trained model of two continuous features, effect coding by least squares and "
            '`density="effect-coding"` give the same interaction.',
            "Largest difference of the interaction (boosted trees of depth 2, uniform features).",
            {"gap": continuous_coding_gap()},
            holds_if(below("gap", 1e-5)),
        ),
    )


def _skewed_table(form: Form) -> str:
    header = ["f0", "f1(0)", "f1(1)", "f2(0)", "f2(1)", "f3(0,0)", "f3(0,1)", "f3(1,0)", "f3(1,1)"]
    return markdown_table([[float(value) for value in form.entries()]], header)


def _figure(fair: dict[str, Form]) -> Any:
    plt = pyplot()
    fig, axes = plt.subplots(2, 4, figsize=(WIDTH, 3.9))
    titles = {
        "(a) AND": "(a) AND (as −AND)",
        "(b) OR": "(b) OR",
        "(c) XOR": "(c) XOR",
        "(d) centred XOR": "(d) centred XOR",
    }
    for column, (name, form) in enumerate(FORMS.items()):
        _draw(axes[0, column], form, titles[name])
        _draw(axes[1, column], fair[name], f"({'efgh'[column]}) {name[:3]} purified")
    return fig


def _draw(ax: Any, form: Form, title: str) -> None:
    near, far = 1.25, 2.25
    _square(ax, 0, 0, form.intercept)
    for bit, place in enumerate((near, far)):
        _square(ax, 0, place, form.first[bit])
        _square(ax, place, 0, form.second[bit])
        for other, across in enumerate((near, far)):
            _square(ax, across, place, form.table[bit, other])
    for x, y, name in ((0.5, 3.3, "$f_1$"), (2.25, 3.3, "$f_3$"), (3.3, 0.5, "$f_2$"), (0.5, -0.42, "$f_0$")):
        ax.text(x, y, name, ha="center" if x < 3 else "left", va="bottom" if y > 1 else "center", color="#222222")
    ax.set(xlim=(-0.05, 3.6), ylim=(-0.6, 3.75), aspect="equal")
    ax.set_title(title, fontsize=8.5, color="#666666" if "purified" in title else "#222222")
    middle = [place + 0.5 for place in (near, far)]
    ax.set_xticks(middle, ["X2=0", "X2=1"])
    ax.set_yticks(middle, ["X1=0", "X1=1"])
    ax.tick_params(length=0, labelsize=7)
    ax.grid(visible=False)
    ax.spines[:].set_visible(False)


def _square(ax: Any, x: float, y: float, value: float) -> None:
    value = float(value) + 0.0
    colour = diverging()(0.5 + value / 2.6)
    ax.add_patch(pyplot().Rectangle((x, y), 1, 1, facecolor=colour, edgecolor="#777777", linewidth=0.8))
    text = "0" if abs(value) < 1e-15 else f"{value:+g}".replace("-", "−")
    ink = "white" if abs(value) > 0.9 else "black"
    ax.text(x + 0.5, y + 0.5, text, ha="center", va="center", fontsize=7.5, color=ink)
