// Try it: two settings of the features, their scores, and the terms by which they differ.

const MOST_REASONS = 12;
const FEW_FEATURES = 8; // without a search
const MOST_CONTROLS = 30; // shown before the reader asks for all
const UNIT_IN_MS = { ns: 1e-6, us: 1e-3, ms: 1, s: 1e3, D: 864e5, ordinal: 864e5 };
const MS_OF_ORDINAL = 719163 * 864e5; // the ordinal number of 1970-01-01, in milliseconds

// The settings, by name: per column its value and whether it is missing. All controls set them by `assign`.
function startPanel({ model, controls }) {
  const settings = {};
  const start = () => controls.map((control, i) => startOf(model.columns[i], control));
  const restart = () => { settings.A = start(); settings.B = start(); };
  restart();
  return {
    settings,
    edited: "B",
    all: false,
    restart,
    assign(which, changes) {
      for (const [i, part] of Object.entries(changes)) settings[which][i] = { ...settings[which][i], ...part };
    },
    resultOf(which) {
      const row = new Map(model.columns.map((column, i) => [column.name, plainValue(settings[which][i])]));
      const terms = termsAt(model, codesAt(model, row));
      const scores = scoresOf(model, terms);
      return { terms, scores, responses: report.scale.response ? responsesOf(model.link, scores) : null };
    },
  };
}

const isList = (control) => control.kind === "category";
const plainValue = (entry) => (entry.missing ? null : entry.value);
const featureOf = (i) => report.features[report.panel.controls[i].feature];
const columnOf = (i) => report.panel.model.columns[i];
const canMiss = (column) => column.missing !== null || (column.labels || []).includes(null);

// The most likely bin of a feature.
function startOf(column, control) {
  const value = isList(control) ? control.values[control.start] : numberIn(column, control, control.start);
  return { value, missing: canMiss(column) && control.missing_share > (control.shares[control.start] || 0) };
}

// A round number in an interval between cuts, near its middle; the outer intervals end where the data do.
function numberIn(column, control, interval) {
  const { cuts, date_unit: unit } = column;
  const { low, high } = report.features[control.feature];
  const [first, last] = [low, high].map((end) => (unit ? fromDays(end, unit) : end));
  const above = interval > 0 ? cuts[interval - 1] : -Infinity;
  const upTo = interval < cuts.length ? cuts[interval] : Infinity;
  const isInside = (value) => above < value && value <= upTo;
  const middle = middleOf(Math.max(above, Math.min(first, upTo)), Math.min(upTo, Math.max(last, above)));
  const digits = Array.from({ length: 17 }, (_, i) => Number(middle.toPrecision(i + 1)));
  const day = unit ? [fromDays(Math.round(toDays(middle, unit)), unit), Math.round(middle)] : [];
  const beyond = above + Math.max(Math.abs(above), 1) * 1e-9;
  return [...day, ...(unit ? [] : digits), middle, upTo, beyond, 0].find((value) => Number.isFinite(value) && isInside(value));
}

function middleOf(low, high) {
  if (!Number.isFinite(low)) return Number.isFinite(high) ? high : 0;
  return Number.isFinite(high) ? low + (high - low) / 2 : low;
}

// Dates: numbers that count a unit of time.
const fromDays = (days, unit) => (days * 864e5 + (unit === "ordinal" ? MS_OF_ORDINAL : 0)) / UNIT_IN_MS[unit];
const toDays = (value, unit) => (value * UNIT_IN_MS[unit] - (unit === "ordinal" ? MS_OF_ORDINAL : 0)) / 864e5;

function dateText(value, unit) {
  const day = new Date(Math.round(toDays(value, unit) * 864e5));
  if (Number.isNaN(day.getTime())) return String(value);
  return day.toISOString().replace("T00:00:00.000Z", "").replace("T", " ").replace(/(\.000)?Z$/, "");
}

function typedValue(text, unit) {
  const plain = text.trim().replace("−", "-");
  if (!plain) return NaN;
  if (!unit || Number.isFinite(Number(plain))) return Number(plain);
  return fromDays(Date.parse(`${plain.replace(" ", "T")}${/[T ]/.test(plain) ? "Z" : ""}`) / 864e5, unit);
}

const fieldText = (value, unit) => (unit ? dateText(value, unit) : String(value));

// What a setting says of a column, in a few words.
function settingText(i, entry) {
  if (entry.missing) return "missing";
  const control = report.panel.controls[i];
  if (isList(control)) return control.texts[control.values.indexOf(entry.value)];
  return minus(fieldText(entry.value, columnOf(i).date_unit));
}

// The interval or category of a setting, and how many rows share it.
function placeText(i, entry) {
  const control = report.panel.controls[i];
  const share = (millionths) => `${percent(millionths / 1e6)} of ${report.rows === null ? "the weight" : "rows"}`;
  if (entry.missing) return `missing · ${share(control.missing_share)}`;
  if (isList(control)) return share(control.shares[control.values.indexOf(entry.value)]);
  const column = columnOf(i);
  if (codeOfNumber(column, false, entry.value) === column.missing && meansMissing(column, entry.value)) return "means missing";
  const interval = cutsBelow(column.cuts, entry.value);
  return `${intervalLabel(control, interval)} · ${share(control.shares[interval])}`;
}

const meansMissing = (column, value) => column.missing_numbers.some(([low, high]) => low <= value && value <= high);

// The parts of the panel.

function renderPanel() {
  if (!report.panel) return;
  at("try").hidden = false;
  if (!panel) {
    at("panel").replaceChildren(el("p", { class: "caption" }, report.panel.reason));
    return;
  }
  at("panel").replaceChildren(
    el("p", { class: "caption" }, panelWords()),
    el("div", { class: "panel" },
      el("div", { class: "setting" }, el("div", { class: "tools", id: "try-tools" }), el("div", { class: "controls", id: "controls", role: "group" }), el("div", { id: "try-more" })),
      el("div", { class: "results" }, el("dl", { class: "numbers", id: "try-scores" }), el("div", { id: "try-outputs" }), el("div", { class: "scroll-wide", id: "reasons" }), el("div", { class: "files", id: "try-files" })),
    ),
    el("div", { class: "print-only", id: "try-settings" }),
  );
  renderControls();
}

function panelWords() {
  const { rest, n_unused: unused } = report.panel;
  const several = report.outputs.length > 1;
  const words = ["Set the features of A and B. Both start at the most likely bin of each feature."];
  if (rest === null) words.push(`Scores are those of ${report.n_terms_of_model ? "the terms that are left" : "the model"}, exactly, and the terms add up to them.`);
  else words.push(`The page has main effects and pairs only: scores leave out all other terms, whose share of the variance of the score is ${several ? report.outputs.map((name, k) => `${rest[k]} (${name})`).join(", ") : rest[0]}.`);
  if (report.densities.length > 1) words.push(`Terms are pure under the density ${report.densities[0]}.`);
  if (unused) words.push(unused === 1 ? "One feature is in no term and has no control." : `${unused} features are in no term and have no control.`);
  return words.join(" ");
}

function edit(which) {
  panel.edited = which;
  renderControls();
  at("try-tools").querySelector("input:checked").focus();
}

function editorChoice() {
  const segments = el("div", { class: "segments" });
  for (const which of ["A", "B"]) {
    const input = el("input", { type: "radio", name: "edited", value: which, onchange: () => edit(which) });
    input.checked = panel.edited === which;
    segments.append(el("label", {}, input, el("span", {}, marker(which), ` Set ${which}`)));
  }
  return el("fieldset", { class: "choice" }, el("legend", { hidden: true }, "Which setting the controls change"), segments);
}

const marker = (which) => el("i", { class: `marker ${which}`, "aria-hidden": "true" });

function renderControls() {
  const button = (text, act) => el("button", { type: "button", class: "plain", onclick: () => { act(); renderControls(); } }, text);
  const other = panel.edited === "A" ? "B" : "A";
  const tools = [
    editorChoice(),
    button(`Copy ${other} to ${panel.edited}`, () => { panel.settings[panel.edited] = [...panel.settings[other]]; }),
    button("Start again", panel.restart),
  ];
  if (report.panel.controls.length > FEW_FEATURES) {
    const search = el("input", { type: "search", placeholder: "Search features", "aria-label": "Search features", id: "try-search" });
    search.value = panel.search || "";
    search.addEventListener("input", () => { panel.search = search.value; renderFound(); });
    tools.push(search);
  }
  at("try-tools").replaceChildren(...tools);
  at("controls").setAttribute("aria-label", `Features of ${panel.edited}`);
  renderFound();
}

// The controls of the features that are searched for.
function renderFound() {
  const words = (panel.search || "").toLowerCase().split(/\s+/).filter(Boolean);
  const found = report.panel.order.filter((i) => words.every((word) => featureOf(i).name.toLowerCase().includes(word)));
  const shown = panel.allControls ? found : found.slice(0, MOST_CONTROLS);
  const showAll = () => {
    panel.allControls = true;
    renderFound();
    at("controls").children[shown.length].querySelector("input, select").focus();
  };
  at("controls").replaceChildren(...shown.map((i) => controlOf(i)));
  const more = el("button", { type: "button", class: "plain", onclick: showAll }, `Show all ${found.length} features`);
  at("try-more").replaceChildren(...(found.length > shown.length ? [more] : []));
  renderResults();
}

// The controls of one column: a slider over the intervals and a field, or a list; and a box for missing values.
function controlOf(i) {
  const control = report.panel.controls[i];
  const name = `${featureOf(i).name}, setting ${panel.edited}`;
  const assign = (part) => {
    panel.assign(panel.edited, { [i]: part });
    renderResults();
  };
  const inputs = isList(control) ? [listOf(i, name, assign)] : [sliderOf(i, name, assign), fieldOf(i, name, assign)];
  const box = el("input", { type: "checkbox", "aria-label": `${name}: missing`, onchange: (event) => assign({ missing: event.target.checked }) });
  return el("div", { class: `control${isList(control) ? " list-of-values" : ""}`, "data-column": String(i) },
    el("div", { class: "what" }, el("b", {}, featureOf(i).name), el("span", { class: "other" })),
    ...inputs,
    el("div", { class: "where" }, el("span", { class: "place" }), ...(canMiss(columnOf(i)) ? [el("label", { class: "box" }, box, " missing")] : [])),
  );
}

function sliderOf(i, name, assign) {
  const column = columnOf(i);
  const onInput = (event) => assign({ value: numberIn(column, report.panel.controls[i], Number(event.target.value)), missing: false });
  return el("input", { type: "range", min: "0", max: String(column.cuts.length), step: "1", "aria-label": name, disabled: column.cuts.length === 0, oninput: onInput });
}

function fieldOf(i, name, assign) {
  const unit = columnOf(i).date_unit;
  const onInput = (event) => {
    const value = typedValue(event.target.value, unit);
    event.target.setAttribute("aria-invalid", String(Number.isNaN(value)));
    if (!Number.isNaN(value)) assign({ value, missing: false });
  };
  const onChange = (event) => { event.target.setAttribute("aria-invalid", "false"); renderResults(); };
  const label = unit ? `${name}: exact date` : `${name}: exact number`;
  return el("input", { type: "text", inputmode: unit ? "text" : "decimal", autocomplete: "off", spellcheck: "false", "aria-label": label, oninput: onInput, onchange: onChange, onblur: onChange });
}

function listOf(i, name, assign) {
  const { values: offered, texts } = report.panel.controls[i];
  const select = el("select", { "aria-label": name, onchange: (event) => assign({ value: offered[Number(event.target.value)], missing: false }) });
  texts.forEach((text, place) => select.append(el("option", { value: String(place) }, text)));
  return select;
}

// Shows the edited setting in the controls. A field that is being typed in stays as it is.
function showSetting() {
  const other = panel.edited === "A" ? "B" : "A";
  for (const row of at("controls").children) {
    const i = Number(row.dataset.column);
    const entry = panel.settings[panel.edited][i];
    const place = placeText(i, entry);
    showValue(row, i, entry, place);
    row.classList.toggle("absent", entry.missing);
    row.querySelector(".place").textContent = place;
    const theirs = settingText(i, panel.settings[other][i]);
    const isOther = theirs !== settingText(i, entry);
    row.classList.toggle("differs", isOther);
    row.querySelector(".other").replaceChildren(...(isOther ? [marker(other), ` ${other}: ${theirs}`] : []));
  }
}

function showValue(row, i, entry, place) {
  const [slider, field, list, box] = ["[type=range]", "[type=text]", "select", "[type=checkbox]"].map((kind) => row.querySelector(kind));
  if (list) list.value = String(report.panel.controls[i].values.indexOf(entry.value));
  if (box) box.checked = entry.missing;
  if (!slider) return;
  slider.value = String(cutsBelow(columnOf(i).cuts, entry.value));
  slider.setAttribute("aria-valuetext", `${settingText(i, entry)}, ${place}`);
  const isTyped = field === document.activeElement && typedValue(field.value, columnOf(i).date_unit) === entry.value;
  if (!isTyped && field.getAttribute("aria-invalid") !== "true") field.value = fieldText(entry.value, columnOf(i).date_unit);
}

// Scores of both settings, and the terms by which they differ.

function renderResults() {
  if (!at("controls")) return;
  showSetting();
  const results = { A: panel.resultOf("A"), B: panel.resultOf("B") };
  const reasons = reasonsOf(results);
  renderScores(results);
  renderOutputs(results);
  renderReasons(reasons, results);
  renderPrinted();
  const download = el("button", { type: "button", onclick: () => save("try-it.csv", csv(reasonTable(reasons, results)), "text/csv") }, "CSV");
  at("try-files").replaceChildren(...moreButton(reasons), download);
}

function moreButton(reasons) {
  if (reasons.length <= MOST_REASONS + 1) return [];
  const turn = () => { panel.all = !panel.all; renderResults(); at("try-files").querySelector("button").focus(); };
  return [el("button", { type: "button", onclick: turn }, panel.all ? `Show ${MOST_REASONS} terms` : `Show all ${reasons.length} terms`)];
}

// Numbers of a table, all with the decimals that give the largest four digits, so that they add up in sight.
function numbersLike(values) {
  const largest = Math.max(...values.map(Math.abs));
  const decimals = 3 - Math.floor(Math.log10(largest));
  if (!(decimals >= 0 && decimals <= 9)) return (value) => number(value, 4);
  return (value) => minus(value.toFixed(decimals)).replace(/^−(?=[0.]*$)/, "");
}

const withSign = (text) => (/^−|^[0.]*$/.test(text) ? text : `+${text}`);

const responseText = (value) => (report.scale.link === "log" ? number(value, 5) : percent(value));

function renderScores({ A, B }) {
  const k = output();
  const of = report.outputs.length > 1 ? ` (${report.outputs[k]})` : "";
  const part = report.panel.rest === null ? "" : " (in part)";
  const line = (text, words) => el("span", { class: "line" }, text, ...(words ? [el("small", {}, words)] : []));
  const words = [`${report.scale.response}${of}${part}`, `${report.scale.score}${of}${part}`];
  const card = (head, score, response, [ofResponse, ofScore] = words) => el("div", {}, el("dt", {}, ...head), el("dd", {},
    ...(response === null ? [] : [line(response, ofResponse)]), line(score, ofScore)));
  const change = B.scores[k] - A.scores[k];
  const response = A.responses && changeOfResponse(A.responses[k], B.responses[k]);
  at("try-scores").replaceChildren(
    card([marker("A"), " A"], number(A.scores[k], 5), A.responses && responseText(A.responses[k])),
    card([marker("B"), " B"], number(B.scores[k], 5), B.responses && responseText(B.responses[k])),
    card(["B − A"], signed(change, 5), response, []),
  );
  at("try-scores").setAttribute("aria-live", "polite");
}

// Differences of probabilities in percentage points; of means as a factor.
function changeOfResponse(a, b) {
  if (report.scale.link === "log") return `× ${number(b / a, 4)}`;
  return `${minus((100 * (b - a)).toFixed(1)).replace(/^(?=\d)(?!0\.0$)/, "+").replace(/^−(0\.0)$/, "$1")}\u00a0points`;
}

const MOST_OUTPUTS = 12;

// All outputs side by side where there are several; one is chosen for the page.
function renderOutputs({ A, B }) {
  const n = report.outputs.length;
  if (n === 1 || n > MOST_OUTPUTS) return;
  const shown = (result, k) => (result.responses ? responseText(result.responses[k]) : number(result.scores[k], 5));
  const rows = report.outputs.map((name, k) => el("tr", k === output() ? { class: "chosen-output" } : {},
    el("th", { scope: "row" }, el("button", { type: "button", "aria-pressed": String(k === output()), onclick: () => { change({ output: String(k) }); at("try-outputs").querySelectorAll("button")[k].focus(); } }, name)),
    ...[A, B].flatMap((result) => [el("td", { class: "number" }, shown(result, k)), el("td", { class: "share" }, result.responses && report.scale.link !== "log" ? el("div", { class: "stack" }, sized(el("span", { class: "order-1" }), result.responses[k])) : "")])));
  const head = el("tr", {}, el("th", { scope: "col" }, report.scale.response || report.scale.score), ...["A", "B"].flatMap((which) => [el("th", { scope: "col", class: "number" }, marker(which), ` ${which}`), el("td", { class: "share" })]));
  at("try-outputs").replaceChildren(el("table", { class: "outputs" }, el("thead", {}, head), el("tbody", {}, ...rows)));
}

// The terms with what they add in A and in B, those with the largest difference first, equal ones by size.
function reasonsOf({ A, B }) {
  const k = output();
  const { terms, columns } = report.panel.model;
  const reasons = terms.map((term, t) => ({ term, names: term.positions.map((i) => columns[i].name), a: A.terms[t][k], b: B.terms[t][k] }));
  const size = ({ a, b }) => Math.abs(b - a);
  return reasons.sort((x, y) => size(y) - size(x) || Math.abs(y.b) - Math.abs(x.b));
}

function renderReasons(reasons, { A, B }) {
  const k = output();
  const shown = panel.all ? reasons : reasons.slice(0, MOST_REASONS + (reasons.length === MOST_REASONS + 1 ? 1 : 0));
  const rest = reasons.slice(shown.length);
  const sum = (name) => rest.reduce((total, reason) => total + reason[name], 0);
  const others = rest.length ? [{ label: `${rest.length} other terms`, a: sum("a"), b: sum("b") }] : [];
  const intercept = report.panel.model.intercept[k];
  const of = report.outputs.length > 1 ? ` (${report.outputs[k]})` : "";
  const totals = [{ label: `${report.scale.baseline} (intercept)`, a: intercept, b: intercept }, { label: `sum: ${report.scale.score}${of}`, a: A.scores[k], b: B.scores[k], total: true }];
  const lines = [...shown, ...others, ...totals];
  const text = numbersLike(lines.flatMap(({ a, b }) => [a, b, b - a]));
  const ends = span([shown.flatMap(({ a, b }) => [a, b])]);
  const head = el("tr", {}, el("th", { scope: "col" }, "term"), ...["A", "B"].map((which) => el("th", { scope: "col", class: "number only-wide" }, marker(which), ` ${which}`)), el("th", { scope: "col", class: "track-cell" }, "from A to B"), el("th", { scope: "col", class: "number" }, "B − A"));
  at("reasons").replaceChildren(el("table", { class: "reasons" }, el("caption", {}, reasonWords(reasons)), el("thead", {}, head), el("tbody", {}, ...lines.map((line) => reasonRow(line, text, ends)))));
}

function reasonWords(reasons) {
  const moved = reasons.filter(hasMoved).length;
  const all = `${reasons.length} term${reasons.length === 1 ? "" : "s"}`;
  if (!moved) return `A and B agree in ${reasons.length === 1 ? "the one term" : `all ${all}`}. Change a feature of ${panel.edited}: the terms that move come first.`;
  return `${moved} of ${all} move the ${report.scale.score} from A to B, the largest first.`;
}

// Whether a term differs by more than rounding: a million units are about the largest value of a table.
const hasMoved = ({ a, b }) => Math.abs(b - a) > 1e-12 * 1e6 * report.unit;

function reasonRow(reason, text, ends) {
  const { term, label, a, b } = reason;
  const name = term ? el("button", { type: "button", title: titleOf(reason.names), onclick: () => openTerm(reason.names) }, shortTitleOf(term.positions)) : label;
  const settings = term ? [el("small", {}, movedText(term.positions))] : [];
  return el("tr", { class: `${term ? "" : "summed"} ${reason.total ? "total" : hasMoved(reason) ? "" : "still"}` }, el("th", { scope: "row" }, name, ...settings),
    el("td", { class: "number only-wide" }, withSign(text(a))), el("td", { class: "number only-wide" }, withSign(text(b))),
    el("td", { class: "track-cell" }, term ? dumbbell(a, b, ends) : ""), el("td", { class: "number" }, hasMoved(reason) ? withSign(text(b - a)) : "0"));
}

const LONG_TITLE = 60;

// Long names get the short ones that the list of terms has.
function shortTitleOf(positions) {
  const names = positions.map((i) => featureOf(i).name);
  const title = titleOf(names);
  return title.length <= LONG_TITLE ? title : positions.map((i) => (featureOf(i).short || [featureOf(i).name])[0]).join(" × ");
}

// Values of a term's columns in A and B, such as "31 → 52"; with names where there are several.
function movedText(positions) {
  return positions.map((i) => {
    const [from, to] = ["A", "B"].map((which) => settingText(i, panel.settings[which][i]));
    const { name, short } = featureOf(i);
    const own = positions.length > 1 ? `${name.length <= LONG_TITLE / 4 || !short ? name : short[1]}\u00a0` : "";
    return from === to ? `${own}${own ? "=\u00a0" : ""}${to}` : `${own}${from}\u00a0→\u00a0${to}`;
  }).join(", ");
}

// A term's values in A (ring) and B (dot) on a common axis, with zero as a line.
function dumbbell(a, b, [low, high]) {
  const place = (value) => (high > low ? 3 + (94 * (value - low)) / (high - low) : 50);
  const part = (kind, left) => {
    const made = el("span", { class: kind });
    made.style.left = `${left}%`;
    return made;
  };
  const line = part(`move ${b >= a ? "up" : "down"}`, Math.min(place(a), place(b)));
  line.style.width = `${Math.abs(place(b) - place(a))}%`;
  return el("div", { class: "track", "aria-hidden": "true" }, part("zero", place(0)), line, part("marker A", place(a)), part("marker B", place(b)));
}

const known = (names) => report.terms.find((term) => term.names.length === names.length && term.names.every((name, i) => name === names[i]));

const titleOf = (names) => (known(names) || { title: names.join(" × ") }).title;

function openTerm(names) {
  change({ term: titleOf(names) });
  at("chosen").scrollIntoView();
}

function reasonTable(reasons, { A, B }) {
  const k = output();
  const intercept = report.panel.model.intercept[k];
  const settings = report.panel.order.map((i) => [featureOf(i).name, ...["A", "B"].map((which) => settingText(i, panel.settings[which][i])), ""]);
  const body = reasons.map(({ names, a, b }) => [titleOf(names), a, b, b - a]);
  return [["feature", "A", "B", ""], ...settings, ["term", "A", "B", "B - A"], ["intercept", intercept, intercept, 0], ...body, ["score", A.scores[k], B.scores[k], B.scores[k] - A.scores[k]]];
}

// On paper the controls are a table.
function renderPrinted() {
  const rows = report.panel.order.map((i) => el("tr", {}, el("th", { scope: "row" }, featureOf(i).name), ...["A", "B"].map((which) => el("td", {}, settingText(i, panel.settings[which][i])))));
  at("try-settings").replaceChildren(el("table", {}, el("thead", {}, el("tr", {}, ...["feature", "A", "B"].map((text) => el("th", { scope: "col" }, text)))), el("tbody", {}, ...rows)));
}

const panel = report.panel && report.panel.model ? startPanel(report.panel) : null;
