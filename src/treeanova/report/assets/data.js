// What the page knows: plain data from Python, decoded on demand. Names are data: they are only ever set as text.

const report = JSON.parse(document.getElementById("treeanova-data").textContent);
const RAW = "raw";

// Text.

const minus = (text) => text.replace(/-/g, "−");

function number(value, digits = 3) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-4) return minus(value.toExponential(digits - 1));
  const decimals = Math.max(0, digits - 1 - Math.floor(Math.log10(size)));
  return minus(value.toLocaleString("en-US", { maximumFractionDigits: decimals }));
}

const signed = (value, digits = 3) => (value > 0 ? "+" : "") + number(value, digits);

function percent(share, digits = 1) {
  const text = minus((100 * share).toFixed(Math.abs(share) < 0.995 ? digits : 0));
  if (share !== 0 && !/[1-9]/.test(text)) return share > 0 ? `<\u00a0${10 ** -digits}\u00a0%` : "≈\u00a00\u00a0%";
  return `${share === 0 ? "0" : text}\u00a0%`;
}

const rowsText = (count) => `${count.toLocaleString("en-US")} row${count === 1 ? "" : "s"}`;

const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

// Terms.

report.terms.forEach((term, position) => {
  term.position = position;
  term.names = term.features ? term.features.map((j) => report.features[j].name) : [term.label];
  term.title = term.label || term.names.join(" × "); // a label of its own where the names alone are ambiguous
  term.short = term.features ? term.features.map((j) => (report.features[j].short || [])[term.order === 1 ? 0 : 1] || report.features[j].name).join(" × ") : term.label;
  term.hasTable = Boolean(term.axes || term.cells);
});


// The name of a ranking: a form under a density.
const rankingName = (density, form) => (form === RAW ? `${density}/raw` : density);

// Sentence and sums of the terms of a form, or null where they are not known, as of raw terms without their rows.
const headlineOf = (density, form, output) => (report.headlines[rankingName(density, form)] || [])[output] || null;

// Rank, variance, share and mean absolute value of a term in a form, or null where it is not there.
function standing(term, density, form, output) {
  const rows = term.standing[rankingName(density, form)];
  const found = rows && rows[output];
  return found ? { rank: found[0], variance: found[1], share: found[2], size: found[3] } : null;
}

// The terms that a form of the model has, strongest first: what is listed, counted and ranked. Where the ranking of the
// raw form is not known, those with a raw table.
function termsOf(density, form, output) {
  const known = headlineOf(density, form, output) !== null;
  const has = (term) => (known ? standing(term, density, form, output) !== null : Boolean(term.values && term.values[RAW]));
  const rank = (term) => (known ? standing(term, density, form, output).rank : term.position);
  return report.terms.filter(has).sort((a, b) => rank(a) - rank(b));
}

const isShownNegative = (share) => share <= -0.0005;

// Values of a term in a form as numbers; null where this form lacks the term.
function values(term, form, output) {
  const stored = term.values && term.values[form];
  if (!stored) return null;
  if (Array.isArray(stored)) return stored[output].map((units) => units * report.unit);
  const base = term.values[stored.base][output];
  const columns = stored.columns[output];
  const rows = stored.rows[output];
  return base.map((units, cell) => {
    const row = Math.floor(cell / columns.length);
    return (units + rows[row] + columns[cell % columns.length]) * report.unit;
  });
}

// Bins of an axis: intervals with their ends, then missing values; or categories.
function bins(position) {
  const axis = report.axes[position];
  if (axis.bins_) return axis.bins_;
  const made = axis.kind === "interval" ? intervals(axis) : categories(axis);
  axis.bins_ = made;
  return made;
}

function intervals(axis) {
  const bounds = axis.bounds;
  const made = [];
  for (let i = 0; i <= bounds.length; i += 1) {
    const low = i === 0 ? -Infinity : bounds[i - 1];
    const high = i === bounds.length ? Infinity : bounds[i];
    made.push({ low, high, label: intervalLabel(axis, i), extra: false });
  }
  if (axis.missing > bounds.length) made.push({ low: NaN, high: NaN, label: "missing", extra: true });
  else if (axis.missing >= 0) made[axis.missing].label += " or missing";
  return made;
}

// A bound in words: a date as Python wrote it, or the number.
const textOf = (axis, i) => (axis.texts ? axis.texts[i] : minus(String(axis.bounds[i])));

function intervalLabel(axis, i) {
  const last = axis.bounds.length - 1;
  const isBelow = (k) => (axis.excluded || []).includes(k); // values are below the bound, not at most it
  if (last < 0) return "all";
  if (i === 0) return `${isBelow(0) ? "<" : "≤"} ${textOf(axis, 0)}`;
  if (i > last) return `${isBelow(last) ? "≥" : ">"} ${textOf(axis, last)}`;
  return `${isBelow(i - 1) ? "[" : "("}${textOf(axis, i - 1)}, ${textOf(axis, i)}${isBelow(i) ? ")" : "]"}`;
}

function categories(axis) {
  const first = axis.labels.length - axis.extra;
  return axis.labels.map((label, i) => ({ label, extra: i >= first }));
}

// Labels of the features and value of every cell, for tables and files.
function cellLabels(term) {
  if (term.cells) return term.cells[0].map((_, i) => term.cells.map((along) => along[i]));
  const [rows, columns] = term.axes.map(bins);
  if (!columns) return rows.map((bin) => [bin.label]);
  return rows.flatMap((row) => columns.map((column) => [row.label, column.label]));
}

// Scales: the score, or the response with all other terms at their average.

const respond = (scores, output) => responsesOf(report.scale.link, scores)[output];

// Values of a term on the chosen scale: differences to what the model says where all terms are zero.
function scaled(term, form, output, scale) {
  const own = values(term, form, output);
  if (scale !== "response" || !own) return own;
  const intercepts = report.intercepts[form];
  const zero = respond(intercepts, output);
  if (report.scale.link !== "softmax") {
    const shifted = intercepts.slice();
    return own.map((value) => {
      shifted[output] = intercepts[output] + value;
      return respond(shifted, output) - zero;
    });
  }
  const all = report.outputs.map((_, k) => values(term, form, k));
  return own.map((_, cell) => respond(intercepts.map((base, k) => base + all[k][cell]), output) - zero);
}

// Ends of the band of two standard errors around a pure term under the first density; null where errors are not known.
function bandOf(term, form, output, scale) {
  const known = term.errors && form === report.densities[0];
  if (!known || (scale === "response" && report.scale.link === "softmax")) return null;
  const middle = values(term, form, output);
  const ends = [-2, 2].map((factor) => middle.map((value, i) => value + factor * term.errors[output][i] * report.unit));
  if (scale !== "response") return ends;
  const intercepts = report.intercepts[form];
  const shifted = intercepts.slice();
  const zero = respond(intercepts, output);
  return ends.map((end) => end.map((value) => {
    shifted[output] = intercepts[output] + value;
    return respond(shifted, output) - zero;
  }));
}

// Cells of a term whose values are within two standard errors of zero.
function unsureCells(term, form, output) {
  const ends = bandOf(term, form, output, "score");
  return ends && ends[0].map((low, i) => low <= 0 && ends[1][i] >= 0);
}

function scaleWord(scale) {
  return scale === "response" ? report.scale.response : report.scale.score;
}

// What values mean; several forms in one picture have base points of their own.
function effectWords(form, output, scale, isOneForm = true) {
  const of = report.outputs.length > 1 ? ` (${report.outputs[output]})` : "";
  if (scale === "response") {
    const base = number(respond(report.intercepts[form === RAW ? RAW : state.density], output));
    return `change in ${report.scale.response}${of}${isOneForm ? ` from ${base}` : ""}, all other terms at ${form === RAW ? "zero" : "their average"} (does not add up)`;
  }
  if (form === RAW) return `contribution to ${report.scale.score}${of}, before purification`;
  return report.scale.effect[output];
}

const rowsWord = report.rows === null ? "weight under the density" : "share of rows";

// Files.

function csvField(value) {
  const text = String(value);
  // A leading =, +, -, @ would be run as a formula by spreadsheets; numbers are never quoted.
  const safe = typeof value === "string" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\n\r]/.test(safe) ? `"${safe.replace(/"/g, '""')}"` : safe;
}

const csv = (table) => table.map((row) => row.map(csvField).join(",")).join("\r\n") + "\r\n";

// A term's table: a row per cell, with its value in every form and output.
function termTable(term) {
  const forms = Object.keys(term.values);
  const several = report.outputs.length > 1;
  const columns = forms.flatMap((form) =>
    report.outputs.map((output, k) => ({
      name: several ? `${form} [${output}]` : form,
      values: values(term, form, k),
    })),
  );
  if (term.errors) report.outputs.forEach((output, k) => columns.push({ name: several ? `standard error [${output}]` : "standard error", values: term.errors[k].map((units) => units * report.unit) }));
  const header = [...term.names, ...columns.map((column) => column.name), rowsWord];
  const body = cellLabels(term).map((labels, i) => [
    ...labels,
    ...columns.map((column) => tidy(column.values[i])),
    term.rows[i] / 1e6,
  ]);
  const notes = tableNotes(term);
  return [...notes.map((note) => [`# ${note}`]), header, ...body];
}

// A number without the noise of binary fractions.
const tidy = (value) => Number(value.toPrecision(7));

function tableNotes(term) {
  const notes = [];
  const sizes = (term.axes || []).map((a) => report.axes[a].bins);
  if (term.merged) notes.push(`bins merged for the page; values are weighted means within merged bins; fx.table has all ${sizes.join(" × ")} bins`);
  if (term.cells) notes.push(`the ${term.cells[0].length} strongest of ${term.n_cells} cells; fx.table has all`);
  return notes;
}

function importanceTable(density) {
  const header = ["term", "order", "output", "variance", "share", "mean_abs", "raw variance", "raw share", "raw mean_abs"];
  const measures = (place) => (place ? [place.variance, place.share, place.size] : ["", "", ""]);
  const body = report.outputs.flatMap((output, k) => {
    const inOrder = new Set([...termsOf(density, "pure", k), ...report.terms]); // then those of the raw form alone
    return [...inOrder].map((term) => [term.title, term.order, output, ...measures(standing(term, density, "pure", k)), ...measures(standing(term, density, RAW, k))]);
  });
  return [header, ...body];
}
