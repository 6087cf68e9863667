// The chosen term: its picture (the one view there is), words, table and files.

function panelsOf(term, view = state.view) {
  const own = (form) => scaled(term, form, output(), state.scale);
  const zero = () => new Array(term.rows.length).fill(0);
  if (view === "densities") {
    return report.densities.map((name, i) => ({ name, values: own(name), colour: seriesColour(i) })).filter((panel) => panel.values);
  }
  if (view === "compare") {
    const [raw, pure] = [own(RAW) || zero(), own(state.density) || zero()];
    return [
      { name: "raw", values: raw, colour: cssColour("raw"), dash: [5, 3] },
      { name: "pure", values: pure, colour: cssColour("main") },
      { name: "moved (pure − raw)", values: pure.map((value, i) => value - raw[i]), colour: cssColour("series-1"), dash: [1, 3], area: true },
    ];
  }
  const found = own(formName());
  const band = found && bandOf(term, formName(), output(), state.scale);
  const unsure = found && unsureCells(term, formName(), output());
  return found ? [{ name: state.form === RAW ? "raw" : "effect", values: found, band, unsure, colour: cssColour(state.form === RAW ? "raw" : "main") }] : [];
}

// Values of the cells that have rows: the others are grey in heat maps and must not stretch the colours.
function drawnValues(term, panel) {
  const seen = term.order === 2 ? panel.values.filter((_, i) => term.rows[i] > 0) : panel.band ? [...panel.values, ...panel.band[0], ...panel.band[1]] : panel.values;
  return seen.length ? seen : panel.values;
}

const span = (lists) => lists.reduce(([low, high], list) => list.reduce(([a, b], v) => [Math.min(a, v), Math.max(b, v)], [low, high]), [0, 0]);

// Ends of the drawn values: of this term, or of all terms of its order.
function domainOf(term, panels) {
  const alike = state.range === "shared" ? report.terms.filter((other) => other.axes && other.order === term.order) : [];
  const shown = [[term, panels], ...alike.map((other) => [other, panelsOf(other)])].filter(([, ofTerm]) => ofTerm.length);
  const [low, high] = span(shown.flatMap(([other, ofTerm]) => ofTerm.map((panel) => drawnValues(other, panel))));
  if (term.order === 2) {
    const limit = Math.max(...shown.map(([other, ofTerm]) => colourLimit(other, ofTerm.map((panel) => panel.values))));
    return { low, high, limit, drawn: [-limit, limit] };
  }
  const room = 0.06 * (high - low) || 1;
  return { low, high, drawn: [low - (low < 0 ? room : 0.3 * room), high + (high > 0 ? room : 0.3 * room)] };
}

const isClipped = ({ low, high, limit }) => limit !== undefined && Math.max(-low, high) > limit * (1 + 1e-9);
const clippedWords = (ends) => (isClipped(ends) ? `; colours end at ±${number(ends.limit)}` : "");

function viewOf(term, panels, width, heading = null) {
  const narrow = width < 560;
  const meaning = state.view === "effect" ? effectWords(state.form, output(), state.scale) : effectWords("pure", output(), state.scale, false);
  const { drawn: domain, ...ends } = domainOf(term, panels);
  const words = `${meaning}${clippedWords(ends)}`;
  return { width: Math.max(180, width - (narrow ? 62 : 78)), height: narrow ? 240 : 300, narrow, words, domain, heading };
}

const embedOptions = { actions: false, ast: true, mode: "vega-lite", renderer: "canvas", defaultStyle: false, tooltip: showTip };

function showTip(_, event, item) {
  const tip = at("tip");
  const lines = item && item.datum && item.datum.tip;
  tip.hidden = !lines;
  if (!lines) return;
  tip.replaceChildren(...lines.flatMap(([name, text]) => [el("b", {}, name), el("span", {}, text)]));
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - box.width - 6))}px`;
  tip.style.top = `${Math.max(4, Math.min(event.clientY + 14, innerHeight - box.height - 6))}px`;
}

let drawn = null; // the one view there is
let ticket = 0;

async function drawPlot(term) {
  ticket += 1;
  const mine = ticket;
  if (drawn) drawn.finalize();
  drawn = null;
  at("tip").hidden = true;
  const plot = at("plot");
  const panels = term.axes ? panelsOf(term) : [];
  if (!panels.length) {
    plot.replaceChildren(el("p", { class: "message" }, whyNoPlot(term)));
    plot.setAttribute("aria-label", whyNoPlot(term));
    document.body.dataset.drawn = String(mine);
    return;
  }
  const view = viewOf(term, panels, plot.clientWidth);
  plot.setAttribute("aria-label", `${term.title}: ${view.words}. The numbers are in the table below.`);
  const holder = el("div");
  const result = await vegaEmbed(holder, termSpec(term, panels, view), embedOptions);
  if (mine !== ticket) {
    result.finalize();
    return;
  }
  drawn = result;
  plot.replaceChildren(holder);
  document.body.dataset.drawn = String(mine);
}

function whyNoPlot(term) {
  if (term.is_sum) return `Terms of ${term.order} features that are not listed, added up; fx.explain(X).others has their sum at rows.`;
  if (!term.features) return "The remainder is what the listed terms leave of the model; fx.remainder(X) gives its values at rows.";
  if (term.at_rows) return "This term has no table. It is listed with its share; fx.term_values(X, names) gives its values at rows.";
  if (!term.hasTable) return "This term is listed with its share only: the page holds tables of the strongest terms. fx.table has its values.";
  if (term.cells) return `A term of ${term.order} features has no flat picture; its strongest cells are in the table below.`;
  return "There is no such term before purification: it appears when interactions are purified. Switch the form to pure to see it.";
}

// How strong a term is in the chosen form. The other form is told where people read it: in models of main effects and pairs.
function standingWords(term) {
  const isRaw = state.form === RAW;
  const place = standing(term, state.density, state.form, output());
  if (!place) return [isRaw && headlineOf(state.density, RAW, output()) === null ? "The raw form is not ranked here." : "This form has no such term."];
  const parts = [el("strong", {}, `${isRaw ? "raw form: " : ""}variance ${percent(place.variance)}`)];
  parts.push(` · rank ${place.rank} of ${termsOf(state.density, state.form, output()).length} · share ${percent(place.share)} · mean |effect| ${number(place.size)}`);
  if (headlineOf(state.density, "pure", output()).reads_raw) {
    const other = standing(term, state.density, isRaw ? "pure" : RAW, output());
    parts.push(` · ${isRaw ? "pure" : "raw"} form: ${other ? `variance ${percent(other.variance)}` : "no such term"}`);
    if (term.moved && term.moved[state.density]) parts.push(` · purification changed its values by ${number(term.moved[state.density][output()])} (root mean square)`);
  }
  if (isShownNegative(place.share)) parts.push(`. ${report.negative_share}`);
  else if (place.variance - place.share > 0.1) parts.push(`. ${report.offset_share}`);
  return parts;
}

function renderChosen() {
  const term = chosenTerm();
  at("term-title").textContent = term.title;
  at("standing").replaceChildren(...standingWords(term), ...heldOutWords(term));
  renderCaption(term);
  renderBeneath();
  renderFiles(term);
  renderTable(term);
  setTimeout(() => drawPlot(term)); // the page first, then its picture
}

function renderCaption(term) {
  const panels = term.axes ? panelsOf(term) : [];
  const parts = [];
  if (panels.length) {
    const ends = domainOf(term, panels);
    parts.push(`${state.range === "own" ? "Values range" : "Values of all terms of this order range"} from ${signed(ends.low)} to ${signed(ends.high)} (${scaleWord(state.scale)}). `);
    if (isClipped(ends)) parts.push(`Colours end at ±${number(ends.limit)}, so that few cells that go far beyond do not bleach all others. `);
    if (term.order === 2 && report.rows !== null) parts.push(el("i"), "no rows here: the model has a value, but no data support it. ");
    term.axes.map((axis) => report.axes[axis]).forEach((axis) => parts.push(...windowNotes(axis)));
    if (panels[0].band && term.order === 1) parts.push("Band: two standard errors on either side. ");
    if (panels[0].unsure && term.order === 2) parts.push("Pale cells: within two standard errors of zero, so that their sign is uncertain. ");
    if (term.choice) parts.push(`Joint density of the pair (auto): ${term.choice}. `);
  }
  parts.push(...tableNotes(term).map((note) => `${capital(note)}. `));
  at("caption").replaceChildren(...parts);
}

function windowNotes(axis) {
  const feature = report.features[axis.feature];
  if (axis.kind !== "interval" || !feature.histogram || axisKind(feature, state.axis) !== "linear") return [];
  const outside = 1 - feature.histogram.reduce((sum, part) => sum + part, 0) / 1e6 - missingShare(axis);
  return outside > 0.0005 ? [`${percent(outside)} of the rows lie beyond the drawn part of ${feature.name}. `] : [];
}

function missingShare(axis) {
  const main = report.terms.find((term) => term.order === 1 && term.axes && report.axes[term.axes[0]].feature === axis.feature);
  const own = main ? bins(main.axes[0]) : [];
  return own.reduce((sum, bin, i) => sum + (bin.extra ? main.rows[i] / 1e6 : 0), 0);
}

// Under the picture of densities: how ranks change.
function renderBeneath() {
  if (state.view !== "densities") {
    at("beneath").replaceChildren();
    return;
  }
  const columns = [...report.densities.map((name) => [name, name, "pure"]), ["raw", state.density, RAW]];
  const ranks = columns.map(([, density, form]) => ranksOf(density, form));
  const body = termsOf(state.density, "pure", output()).slice(0, 12).map((term) =>
    el("tr", {}, el("th", { scope: "row" }, term.title), ...ranks.map((rank, i) => rankCell(rank.get(term), ranks[0].get(term), i))),
  );
  const head = el("tr", {}, el("th", { scope: "col" }, "term"), ...columns.map(([name]) => el("th", { scope: "col", class: "number" }, name)));
  const missing = Object.entries(report.missing_densities).map(([name, reason]) => el("p", { class: "caption" }, `The density ${name} is not on this page: ${reason}`));
  at("beneath").replaceChildren(
    el("h3", {}, "Rank of the strongest terms under each density"),
    el("table", {}, el("thead", {}, head), el("tbody", {}, ...body)),
    ...missing,
  );
}

function ranksOf(density, form) {
  return new Map(termsOf(density, form, output()).map((term, i) => [term, i + 1]));
}

function rankCell(rank, first, column) {
  if (rank === undefined) return el("td", { class: "number" }, "–");
  const gap = column && first ? first - rank : 0;
  const mark = gap ? el("span", { class: gap > 0 ? "up" : "down" }, ` ${gap > 0 ? "▲" : "▼"}${Math.abs(gap)}`) : null;
  return el("td", { class: "number" }, String(rank), mark);
}

// Files and tables.

function save(name, content, type) {
  const url = content.startsWith("data:") ? content : URL.createObjectURL(new Blob([content], { type }));
  el("a", { href: url, download: name.replace(/[^\w.-]+/g, "_") }).click();
  if (!content.startsWith("data:")) setTimeout(() => URL.revokeObjectURL(url), 1000);
}

// A picture of its own with a heading, drawn off the page.
async function picture(spec, kind) {
  const result = await vegaEmbed(document.createElement("div"), spec, embedOptions);
  const content = kind === "svg" ? await result.view.toSVG() : await result.view.toImageURL("png", 2);
  result.finalize();
  return content;
}

async function savePicture(term, kind) {
  const panels = panelsOf(term);
  const spec = termSpec(term, panels, viewOf(term, panels, 860, term.title));
  save(`${term.title}.${kind}`, await picture(spec, kind), "image/svg+xml");
}

function renderFiles(term) {
  const button = (text, act) => el("button", { type: "button", onclick: act }, text);
  const files = [];
  if (term.hasTable) files.push(button("CSV", () => save(`${term.title}.csv`, csv(termTable(term)), "text/csv")));
  if (term.axes && panelsOf(term).length) files.push(button("PNG", () => savePicture(term, "png")), button("SVG", () => savePicture(term, "svg")));
  at("files").replaceChildren(...files);
}

function renderTable(term) {
  const twin = at("twin");
  twin.hidden = !term.hasTable;
  if (term.cells) twin.open = true;
  at("table").replaceChildren(...(twin.open && term.hasTable ? [tableOf(termTable(term))] : []));
}

function tableOf(rows) {
  const start = rows.findIndex((row) => !String(row[0]).startsWith("# ") || row.length > 1);
  const shown = rows.slice(start + 1, start + 1 + Math.ceil(MOST_TABLE_CELLS / rows[start].length));
  const cell = (tag, value) => (typeof value === "number" ? el(tag, { class: "number" }, number(value, 5)) : el(tag, {}, String(value)));
  const line = (tag) => (row) => el("tr", {}, ...row.map((value) => cell(tag, value)));
  const table = el("table", {}, el("thead", {}, line("th")(rows[start])), el("tbody", {}, ...shown.map(line("td"))));
  const left = rows.length - start - 1 - shown.length;
  return el("div", {}, table, ...(left > 0 ? [el("p", { class: "caption" }, `${left.toLocaleString("en-US")} more rows are in the CSV.`)] : []));
}
