"""Figure 1 and effect coding: four ways to write one function of two Booleans, and the one that purification gives."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import treeanova
from studies.common import WIDTH, Claim, Section, Settings, diverging, markdown_table, number, paragraphs, pyplot
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


FORMS = {
    "(a) AND": _form(0.25, [-0.25, 0.25], [[0, 0], [0, -1]]),
    "(b) OR": _form(-0.75, [0.25, -0.25], [[0, 1], [1, 1]]),
    "(c) XOR": _form(-0.25, [0, 0], [[0, 0.5], [0.5, 0]]),
    "(d) centred XOR": _form(0.0, [0, 0], [[-0.25, 0.25], [0.25, -0.25]]),
}
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


def run(settings: Settings) -> Section:
    """The study of Figure 1 and of effect coding."""
    canonical = FORMS["(d) centred XOR"]
    fair = {name: purified(form, FAIR) for name, form in FORMS.items()}
    skewed = [purified(form, DEPENDENT) for form in FORMS.values()]
    outputs = max(float(np.abs(form.output() - canonical.output()).max()) for form in FORMS.values())
    to_d = max(form.gap(canonical) for form in fair.values())
    among = max(form.gap(skewed[0]) for form in skewed)
    claims = (
        Claim(
            "Figure 1",
            "four different-looking models are one function",
            f"outputs differ by at most {number(outputs)}",
            "agree",
        ),
        Claim(
            "Figure 1",
            "(d) is the canonical form that purification returns",
            f"all four purify to (d) within {number(to_d)} with fair coins; under other weights all four still agree "
            f"(within {number(among)}), but on another form",
            "agree",
        ),
        _formula_claim(),
        _sign_claim(),
        *_coding_claims(),
    )
    body = paragraphs(
        "Four additive models of two Booleans, as the paper writes them (top) and purified under fair coins (bottom). "
        "The big squares are the interaction; the strip on the left is the main effect of X1, the strip below that of "
        "X2, the corner the intercept.",
        settings.save(_figure(fair), "forms", "Figure 1 before and after purification"),
        f"With weights P(0,0), P(0,1), P(1,0), P(1,1) = {', '.join(f'{w:g}' for w in DEPENDENT.ravel())} the same "
        "function has another pure form, the same for all four:",
        _skewed_table(skewed[0]),
        "Every pure interaction of two Booleans is a constant divided by ± the probability of the cell, so it has the "
        "shape of XOR with equal sizes only where all four cells are equally likely.",
    )
    return Section("Figure 1: one function, four forms", body, claims)


def _formula_claim() -> Claim:
    as_printed, unit = text_formula_gap(0.25), text_formula_gap(1.0)
    return Claim(
        "Section 1.1, footnote 1",
        "AND = −0.25 XOR + mains and OR = 0.25 XOR + mains, XOR being that of Figure 1d",
        f"with Figure 1d's values ±0.25 the formulas miss by up to {number(as_printed)}; with ±1 by {number(unit)}: "
        "the footnote must mean a XOR of ±1",
        "in part",
    )


def _sign_claim() -> Claim:
    both = [treeanova.purify(table, FAIR).terms[0, 1] for table in (AND, OR)]
    opposite = number(float(np.abs(both[0] + both[1]).max()))
    return Claim(
        "Section 1.1",
        "the interaction of AND is identical to that of OR",
        f"same size, opposite sign: corner (1,1) is {number(both[0][1, 1])} for AND, {number(both[1][1, 1])} for "
        f"OR (their sum is {opposite} everywhere); Figure 1a therefore contains −AND",
        "in part",
    )


def _coding_claims() -> tuple[Claim, ...]:
    rng = np.random.default_rng(0)
    scores, weights = rng.normal(size=(4, 5)), rng.dirichlet(np.ones(20)).reshape(4, 5)
    coded = effect_coded(scores)
    even = np.abs(treeanova.purify(scores, np.ones((4, 5))).terms[0, 1] - coded).max()
    uneven = np.abs(treeanova.purify(scores, weights).terms[0, 1] - coded).max()
    return (
        Claim(
            "Section 4.1",
            "effect coding is the fANOVA under uniform weights",
            f"random 4 × 5 table: interactions differ by {number(even)}",
            "agree",
        ),
        Claim(
            "Section 4.1",
            "for discrete features fANOVA is equivalent to effect coding",
            f"only under uniform weights: with random ones the same table's interactions differ by {number(uneven)}",
            "in part",
        ),
    )


def _skewed_table(form: Form) -> str:
    header = ["f0", "f1(0)", "f1(1)", "f2(0)", "f2(1)", "f12(0,0)", "f12(0,1)", "f12(1,0)", "f12(1,1)"]
    return markdown_table([[float(value) for value in form.entries()]], header)


def _figure(fair: dict[str, Form]) -> Any:
    plt = pyplot()
    fig, axes = plt.subplots(2, 4, figsize=(WIDTH, 5.0))
    for column, (name, form) in enumerate(FORMS.items()):
        _draw(axes[0, column], form, name)
        _draw(axes[1, column], fair[name], "purified")
    return fig


def _draw(ax: Any, form: Form, title: str) -> None:
    near, far = 1.25, 2.25
    _square(ax, 0, 0, form.intercept)
    for bit, place in enumerate((near, far)):
        _square(ax, 0, place, form.first[bit])
        _square(ax, place, 0, form.second[bit])
        for other, across in enumerate((near, far)):
            _square(ax, across, place, form.table[bit, other])
    ax.set(xlim=(-0.05, 3.3), ylim=(-0.05, 3.3), aspect="equal")
    ax.set_title(title, color="#222222" if title != "purified" else "#666666")
    middle = [place + 0.5 for place in (0, near, far)]
    ax.set_xticks(middle, ["", "X2=0", "X2=1"])
    ax.set_yticks(middle, ["", "X1=0", "X1=1"])
    ax.tick_params(length=0, labelsize=8.5)
    ax.grid(visible=False)
    ax.spines[:].set_visible(False)


def _square(ax: Any, x: float, y: float, value: float) -> None:
    value = float(value) + 0.0
    colour = diverging()(0.5 + value / 2.6)
    ax.add_patch(pyplot().Rectangle((x, y), 1, 1, facecolor=colour, edgecolor="#777777", linewidth=0.8))
    text = "0" if abs(value) < 1e-15 else f"{value:+g}".replace("-", "−")
    ink = "white" if abs(value) > 0.9 else "black"
    ax.text(x + 0.5, y + 0.5, text, ha="center", va="center", fontsize=9.5, color=ink)
