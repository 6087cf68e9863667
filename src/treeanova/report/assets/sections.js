// The sections below: rows, checks, how to read.

// Rows.

function renderRows() {
  if (!report.local) return;
  at("rows").hidden = false;
  const which = Math.min(Number(state.row) || 0, report.local.features.length - 1);
  const found = report.local.explained[state.density][which][output()];
  const options = report.local.features.map((_, i) => [String(i), `row ${i + 1}`]);
  const steps = stepsOf(found);
  const unit = report.unit;
  const response = report.scale.response ? ` · ${report.scale.response} ${number(respond(report.local.explained[state.density][which].map((one) => one.score * unit), output()))}` : "";
  const words = el("p", { class: "standing" }, el("strong", {}, `${report.scale.score} ${number(found.score * unit, 5)}`), `${response} · pure terms under the density ${state.density}; a term opens above.`);
  const title = `Row ${which + 1}: ${report.scale.score} ${number(found.score * unit, 5)}`;
  const files = el("div", { class: "files" },
    el("button", { type: "button", onclick: () => save(`row ${which + 1}.csv`, csv(rowTable(which, found)), "text/csv") }, "CSV"),
    el("button", { type: "button", onclick: async () => save(`row ${which + 1}.png`, await picture({ ...waterfallSpec(steps, title, 520), config: chartConfig() }, "png"), "") }, "PNG"),
    el("button", { type: "button", onclick: async () => save(`row ${which + 1}.svg`, await picture({ ...waterfallSpec(steps, title, 520), config: chartConfig() }, "svg"), "image/svg+xml") }, "SVG"),
  );
  const picker = dropdown("Row", "row", options);
  picker.style.maxWidth = "9rem";
  at("waterfall").replaceChildren(picker, words, waterfall(steps, which), files);
}

// Steps from the intercept to the score; what is not shown term by term is one step, so that all adds up.
function stepsOf(found) {
  const unit = report.unit;
  const shown = found.terms.slice(0, MOST_STEPS);
  const left = found.terms.slice(MOST_STEPS);
  const rest = found.rest + left.reduce((sum, [, units]) => sum + units, 0);
  const nRest = found.n_rest + left.length;
  const parts = shown.map(([place, units]) => ({ term: report.terms[place], label: report.terms[place].title, units }));
  if (nRest) parts.push({ label: `${nRest} other terms`, units: rest });
  let total = found.intercept;
  const steps = [{ label: `${report.scale.baseline} (intercept)`, from: 0, to: total * unit, amount: total * unit, total: true }];
  for (const part of parts) {
    steps.push({ term: part.term, label: part.label, from: total * unit, to: (total + part.units) * unit, amount: part.units * unit });
    total += part.units;
  }
  steps[0].from = steps[0].to;
  steps.push({ label: `score (${report.scale.score})`, from: total * unit, to: total * unit, amount: total * unit, total: true });
  return steps;
}

function waterfall(steps, which) {
  const [low, high] = steps.reduce(([a, b], step) => [Math.min(a, step.from, step.to), Math.max(b, step.from, step.to)], [Infinity, -Infinity]);
  const place = (value) => (100 * (value - low)) / (high - low || 1);
  const lines = steps.map((step) => {
    const { term } = step;
    const own = term && term.features ? term.features.map((j) => `${report.features[j].name} = ${report.local.features[which][j].replace(/^-(?=[\d.])/, "−")}`).join(", ") : step.label;
    const name = term ? el("button", { type: "button", onclick: () => { change({ term: term.title }); at("chosen").scrollIntoView(); } }, own) : step.label;
    const bar = el("span");
    bar.style.left = `${Math.min(place(step.from), place(step.to)) * 0.99}%`;
    bar.style.width = `${Math.abs(place(step.to) - place(step.from)) * 0.99}%`;
    bar.style.background = step.total ? "var(--muted)" : step.amount >= 0 ? "var(--positive)" : "var(--negative)";
    return el("tr", step.total ? { class: "total" } : {}, el("td", { class: "what" }, name), el("td", { class: "amount number" }, step.total ? number(step.amount, 5) : signed(step.amount, 4)), el("td", {}, el("div", { class: "track" }, bar)));
  });
  const head = el("tr", {}, el("th", { class: "what", scope: "col" }, "term"), el("th", { class: "amount number", scope: "col" }, report.scale.score), el("th", { scope: "col" }, "step by step"));
  return el("table", { class: "waterfall" }, el("thead", {}, head), el("tbody", {}, ...lines));
}

function rowTable(which, found) {
  const unit = report.unit;
  const entries = found.terms.map(([place, units]) => [report.terms[place].title, tidy(units * unit)]);
  if (found.n_rest) entries.push([`${found.n_rest} other terms`, tidy(found.rest * unit)]);
  return [["term", `row ${which + 1}`], ["intercept", tidy(found.intercept * unit)], ...entries, ["score", tidy(found.score * unit)]];
}

// Held-out rows.

const HELD_OUT = ["term", "loss without it", "standard error", "p", "p (Holm)", "slope", "explains", "share of the score"];

// What held-out rows say of a term, per target where there are several.
function heldOutRows(term) {
  if (!report.validation) return [];
  return report.validation.terms.filter(([label, target]) => label === term.title && (target === null || target === report.outputs[output()]));
}

const pText = (p) => (p === null ? "–" : p < 1e-4 ? "<\u00a00.0001" : p.toFixed(4));

function heldOutWords(term) {
  return heldOutRows(term).slice(0, 1).map(([, , change, error, p]) => ` · on held-out rows, ${report.validation.loss} without it ${signed(change)} ± ${number(2 * error, 2)} (p ${pText(p)})`);
}

const MOST_IDLE = 10;

function renderValidation() {
  if (!report.validation) return;
  at("validation").hidden = false;
  const { loss, rows, model, constant, dispensable: idle, significant, notes, terms } = report.validation;
  const several = terms.some(([, target]) => target !== null);
  const lines = terms.map(([label, target, lossChange, error, p, holm, slope, share, own, aliases]) => {
    const known = report.terms.find((term) => term.title === label);
    const name = known ? el("button", { type: "button", class: "link", onclick: () => { change({ term: label }); at("chosen").scrollIntoView(); } }, label) : label;
    const numbers = [signed(lossChange), number(error, 2), pText(p), pText(holm), slope === null ? "–" : number(slope, 3), share === null ? "–" : percent(share), percent(own)];
    return el("tr", holm !== null && holm < 0.05 ? { class: "significant" } : {}, el("th", { scope: "row" }, name, aliases ? el("small", {}, ` tested with ${aliases}`) : ""), ...(several ? [el("td", {}, target)] : []), ...numbers.map((text) => el("td", { class: "number" }, text)));
  });
  const heads = [HELD_OUT[0], ...(several ? ["target"] : []), ...HELD_OUT.slice(1)];
  const head = el("tr", {}, ...heads.map((text, i) => el("th", { scope: "col", ...(i && text !== "target" ? { class: "number" } : {}) }, text)));
  const words = `${rowsText(rows)} that the model was not trained on. Mean ${loss}: ${model.map((one) => number(one, 5)).join(", ")} for the model, ${constant.map((one) => (one === null ? "–" : number(one, 5))).join(", ")} for the best constant.`;
  const found = `Does the outcome follow the term, given all the others? ${significant.length} of ${terms.length} terms are significant (p below 0.05 after Holm's correction for all p-values).${notes.map((note) => ` ${note}.`).join("")}`;
  const unpaid = `How much worse is the loss without the term? ` + (idle.length ? `Interactions that can be left out, because the loss grows by at most two standard errors without them: ${idle.slice(0, MOST_IDLE).join(", ")}${idle.length > MOST_IDLE ? ` and ${idle.length - MOST_IDLE} more, which the table shows` : ""}.` : "For every interaction, by more than two standard errors.");
  const table = () => csv([heads, ...terms.map((row) => (several ? row : [row[0], ...row.slice(2)]).map((value) => (value === null ? "" : value)))]);
  at("held-out").replaceChildren(
    el("p", {}, words), el("ol", {}, el("li", {}, unpaid), el("li", {}, found)),
    el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Terms on held-out rows" }, el("table", { class: "validation" }, el("thead", {}, head), el("tbody", {}, ...lines))),
    el("p", { class: "caption" }, "Loss without it: change of the mean loss when the term is left out. p: whether the outcome follows the term in a regression on all terms and on curves of all features; terms with p (Holm) below 0.05 are bold. Tested with: terms that these rows cannot distinguish from it, which are tested together as one sum. Slope: the multiple of the term that fits best; 1 is calibrated, 0 is noise. Explains: share of the outcome's variance."),
    el("div", { class: "files" }, el("button", { type: "button", onclick: () => save("held-out.csv", table(), "text/csv") }, "CSV")),
  );
}

// What was changed by hand.

const EDITS = ["edit", "root mean square", "largest", "mass", "purified again, which moved", "no longer true", "note"];

function renderChanges() {
  if (!report.changes) return;
  at("changes").hidden = false;
  const { edits, tables } = report.changes;
  const all = (numbers) => (numbers.length ? numbers.map((one) => number(one, 3)).join(" / ") : "–");
  const lines = edits.map((edit) => [edit.words, all(edit.rms), all(edit.largest), edit.share === null ? "–" : edit.share, edit.moved.join(", "), edit.breaks.join("; "), edit.note]);
  const drawn = edits.filter((edit) => edit.rows !== null).length ? " Some are estimated at rows drawn from the density." : "";
  const words = `${edits.length === 1 ? "One edit" : `${edits.length} edits`} by hand: the terms are no longer those of the model. How far each moved the ${report.scale.score} under the density: root mean square and largest size of the change, and the share of the mass where it changes.${drawn}`;
  const more = tables.flatMap(([title, rows]) => [el("h3", {}, title), changesTable(title, Object.keys(rows[0]), rows.map((row) => Object.values(row)))]);
  at("edits").replaceChildren(el("p", {}, words), changesTable("Edits", EDITS, lines), ...more);
}

const TEXTS = ["edit", "group", "output", ...EDITS.slice(4)];

function changesTable(label, heads, lines) {
  const kind = (name) => (TEXTS.includes(name) ? {} : { class: "number" });
  const head = el("tr", {}, ...heads.map((name) => el("th", { scope: "col", ...kind(name) }, name)));
  const body = lines.map((cells) => el("tr", {}, el("th", { scope: "row" }, cells[0]), ...cells.slice(1).map((text, i) => el("td", kind(heads[i + 1]), text))));
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, el("table", { class: "validation" }, el("thead", {}, head), el("tbody", {}, ...body)));
}

// Checks and words.

function renderChecks() {
  const { entries, blind } = report.checks[state.density];
  const list = el("ul", { class: "entries" }, ...entries.map((entry) => el("li", { class: entry.verdict }, el("h3", {}, entry.title), entry.text, ...(entry.details ? [el("details", {}, el("summary", {}, "Details"), entry.details)] : []))));
  const parts = [list, el("h3", {}, "Where the data cannot tell")];
  if (!blind.rows.length) parts.push(el("p", {}, "Every cell of every interaction has rows: no value rests on convention alone."));
  else {
    parts.push(el("p", { class: "caption" }, `Cells that no row falls in: there the model has a value, but how it splits into effects follows from the density alone. Where the density ${state.density} has no weight either, or where its support is not connected, the split follows the product of the marginals.`));
    const body = blind.rows.map((row) => el("tr", {}, el("th", { scope: "row" }, row.term), el("td", { class: "number" }, row.empty), el("td", { class: "number" }, row.unweighted), el("td", { class: "number" }, String(row.parts))));
    const heads = ["cells without rows", "without weight", "components"].map((text) => el("th", { scope: "col", class: "number" }, text));
    parts.push(el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Terms with cells without rows" }, el("table", {}, el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "term"), ...heads)), el("tbody", {}, ...body))));
    if (blind.n_more) parts.push(el("p", { class: "caption" }, `${blind.n_more} more terms have such cells.`));
  }
  at("certificate").replaceChildren(...parts);
}

function renderWords() {
  const score = report.scale.score;
  const item = (strong, text) => el("li", {}, el("strong", {}, strong), ` ${text}`);
  const read = el("div", {}, el("h3", {}, "How to read"), el("ul", {},
    item("Sum.", `Intercept ${report.outputs.map((_, k) => number(report.intercepts[report.densities[0]][k], 5)).join(", ")} plus the value of every term is the model's ${score} for a row: nothing is approximated.`),
    item("Pure.", "In a pure term the mean over each feature, weighted by the density, is zero. Main effects hold all that main effects can express; an interaction holds only the rest."),
    item("Raw.", "The same model before purification: how much of it sits in interactions depends on how its trees happened to be trained. Both forms predict the same."),
    item("Density.", "The weights under which terms are pure: uniform weighs every bin equally, empirical uses the rows as they are, auto a smoothed estimate chosen for each pair. Where densities disagree, the data do not determine how the model splits into effects."),
    item("Variance.", `${capital(report.variance_words)}: how strong the term is by itself. Terms are in this order. Without a term, the squared error of a well-fitted model grows by its variance. ${report.headlines[report.densities[0]][0].sum}`),
    item("Share.", `The variance and what the term adds or takes away by correlation with others; shares add up to 100\u00a0%. ${report.negative_share}`),
    ...(report.scale.link === "softmax" ? [item("Class score.", "One number per class; their softmax gives the probabilities. Only differences between classes count: the difference of two class scores is the log-odds of one class against the other.")] : []),
    item("Curves", "are drawn in steps, as the model makes them; grey bars below show where rows lie. In heat maps zero has the colour of the background, and grey cells have no rows."),
  ), el("p", {}, `Numbers are rounded to ${number(report.unit, 1)}; they add up to that precision for each term shown.`));
  const code = `import treeanova\n\nfx = ${report.call}\ntreeanova.write_report(fx, "report.html")`;
  const versions = Object.entries(report.versions).map(([name, version]) => `${name} ${version}`).join(" · ");
  const computed = `Densities on this page: ${report.densities.join(", ")}.`;
  const missing = Object.entries(report.missing_densities).map(([name, reason]) => el("p", {}, `The density ${name} is not on this page: ${reason}`));
  const download = (text, name, table) => el("button", { type: "button", class: "plain", onclick: () => save(name, table(), "text/csv") }, text);
  const rest = el("div", {}, el("h3", {}, "Reproduce"), el("pre", {}, code), el("p", {}, versions), el("p", {}, computed), ...missing,
    el("h3", {}, "Download"),
    el("div", { class: "files" }, download("Importance of all terms (CSV)", "importance.csv", () => csv(importanceTable(state.density))), download("Tables of all terms (CSV)", "terms.csv", allTables)),
    el("p", {}, report.local ? "This page holds single rows, as asked for." : "This page holds aggregates only, no rows of the data."));
  at("words").replaceChildren(el("div", { class: "columns" }, read, rest));
}

function allTables() {
  return report.terms.filter((term) => term.hasTable).map((term) => csv([[`# ${term.title}`], ...termTable(term)])).join("\r\n");
}
