// Evaluates a model in step form: plain data with columns, terms, intercept and link. Null, undefined and NaN are missing.

// The code of each column's value in a row, an object or a Map. Values that the model refuses throw an Error.
function codesAt(model, row) {
  return model.columns.map((column) => {
    const value = row instanceof Map ? row.get(column.name) : row[column.name];
    const isAbsent = value === null || value === undefined || Number.isNaN(value);
    if (!isAbsent) checkKind(column, value);
    const code = column.labels ? codeOfLabel(column, isAbsent, value) : codeOfNumber(column, isAbsent, value);
    if (code === null) throw new Error(`column ${column.name} must hold values that the model takes, got ${value}`);
    return code;
  });
}

// Texts are taken where labels are texts, numbers and booleans (as 0 and 1) everywhere else.
function checkKind(column, value) {
  const labels = (column.labels || [0]).filter((label) => label !== null);
  const isText = (one) => typeof one === "string";
  const isKnown = isText(value) || typeof value === "number" || typeof value === "boolean";
  if (isKnown && (!labels.length || labels.some((label) => isText(label) === isText(value)))) return;
  const shown = isText(value) ? JSON.stringify(value) : `${typeof value} ${value}`;
  throw new TypeError(`column ${column.name} must hold ${labels.some(isText) ? "texts" : "numbers"}, got ${shown}`);
}

function codeOfLabel(column, isAbsent, value) {
  const isPlain = (one) => typeof one === "number" || typeof one === "boolean";
  const isSame = (label) => label === value || (isPlain(label) && isPlain(value) && Number(label) === Number(value));
  const place = column.labels.findIndex(isAbsent ? (label) => label === null : isSame);
  if (place >= 0) return column.codes[place] === null ? column.missing : column.codes[place];
  return isAbsent ? column.missing : column.unseen;
}

function codeOfNumber(column, isAbsent, value) {
  const meansMissing = !isAbsent && column.missing_numbers.some(([low, high]) => low <= value && value <= high);
  return isAbsent || meansMissing ? column.missing : column.codes[cutsBelow(column.cuts, value)];
}

function cutsBelow(cuts, value) {
  let low = 0;
  let high = cuts.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (cuts[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

function isActive(column, code, k) {
  return k === 0 || (column.ordered && k > 0 ? code >= k : code === k);
}

// The terms at codes of all columns: per term a value per output.
function termsAt(model, codes) {
  return model.terms.map(({ positions, codes: indicators, coefficients }) => {
    const total = model.intercept.map(() => 0);
    indicators.forEach((ks, index) => {
      if (ks.every((k, place) => isActive(model.columns[positions[place]], codes[positions[place]], k)))
        coefficients[index].forEach((value, output) => { total[output] += value; });
    });
    return total;
  });
}

// The score of each output: the intercept plus all terms.
function scoresOf(model, terms) {
  const scores = model.intercept.slice();
  for (const values of terms) values.forEach((value, output) => { scores[output] += value; });
  return scores;
}

// The response of each output, such as a probability.
function responsesOf(link, scores) {
  if (link === "logit") return scores.map((x) => (x >= 0 ? 1 / (1 + Math.exp(-x)) : Math.exp(x) / (1 + Math.exp(x))));
  if (link === "log") return scores.map(Math.exp);
  if (link === "softmax") {
    const largest = Math.max(...scores);
    const powers = scores.map((x) => Math.exp(x - largest));
    const total = powers.reduce((a, b) => a + b, 0);
    return powers.map((power) => power / total);
  }
  if (link === "identity" || link === "probability") return scores;
  throw new Error("the response does not follow from the score of a model with link " + link);
}
