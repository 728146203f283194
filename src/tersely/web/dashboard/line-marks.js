// What became of each line of a result, and the lines a filter leaves. Pure: runs in, numbers out.

const KEPT = new Set(["shown", "partial", "folded", "quoted", "cited"]);

export class LineMarks {
  /** runs: [{first, last, kind}] in order, together every line. */
  constructor(runs = []) {
    this.runs = runs;
  }

  at(line) {
    let low = 0;
    let high = this.runs.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.runs[middle].last < line) low = middle + 1;
      else high = middle;
    }
    return this.runs[low]?.kind ?? "";
  }

  /** The first line of one of these kinds, or 0. */
  first(...kinds) {
    return this.runs.find((run) => kinds.includes(run.kind))?.first ?? 0;
  }

  /** The lines that a filter leaves: "" for all, "kept" or "left-out". */
  chosen(filter, total) {
    if (!filter) return new ChosenLines([{ first: 1, last: total }]);
    return new ChosenLines(this.runs.filter((run) => KEPT.has(run.kind) === (filter === "kept")));
  }
}

/** Some lines of a text, numbered from 0. */
export class ChosenLines {
  #starts = [];
  #runs;

  constructor(runs) {
    this.#runs = runs;
    let count = 0;
    for (const { first, last } of runs) {
      this.#starts.push(count);
      count += last - first + 1;
    }
    this.count = count;
  }

  /** The line number at an index. */
  line(index) {
    const place = before(this.#starts, index);
    return this.#runs[place].first + index - this.#starts[place];
  }

  /** The index of a line, or of the next one that is there. */
  index(line) {
    const place = before(
      this.#runs.map((run) => run.first),
      line,
    );
    if (place < 0) return 0;
    const { first, last } = this.#runs[place];
    return Math.min(this.count - 1, line <= last ? this.#starts[place] + line - first : this.#starts[place] + last - first + 1);
  }
}

/** The last place whose value is not greater. */
function before(values, wanted) {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] <= wanted) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

const FIELD = "\\b(?:level|lvl|severity)\\W{1,4}";
// Small letters are a level only where a level is expected: messages speak of errors too.
/** @type {[string, RegExp][]} */
const LEVELS = [
  ["error", new RegExp(`\\b(?:FATAL|CRITICAL|EMERG|PANIC|SEVERE|ERROR|ERR)\\b|^\\W*(?:error|fatal|panic)\\b|${FIELD}(?:error|fatal|critical)\\b|\\[(?:error|fatal|crit)\\]|^\\S*(?:Exception|Error)\\b|^Traceback|^Caused by`)],
  ["warn", new RegExp(`\\b(?:WARN|WARNING)\\b|^\\W*(?:warn|warning)\\b|${FIELD}warn(?:ing)?\\b|\\[warn(?:ing)?\\]`)],
  ["info", new RegExp(`\\b(?:INFO|NOTICE)\\b|${FIELD}info\\b|\\[(?:info|notice)\\]`)],
  ["debug", new RegExp(`\\b(?:DEBUG|TRACE)\\b|${FIELD}(?:debug|trace)\\b|\\[debug\\]`)],
];

/** The level of a log line by its first level word within the first 200 characters: "error", "warn", "info", "debug" or "". */
export function levelOf(text) {
  const start = text.slice(0, 200);
  let best = "";
  let place = Infinity;
  for (const [level, pattern] of LEVELS) {
    const at = start.search(pattern);
    if (at >= 0 && at < place) {
      best = level;
      place = at;
    }
  }
  return best;
}

/** Rows of wrapped lines: a line takes as many rows as its length needs; a line that is not loaded takes one. */
export class WrappedRows {
  #blocks = new Map(); // block → [rows of each line, sum]
  #columns = 80;
  #size;

  constructor(size, columns) {
    this.#size = size;
    this.#columns = columns;
  }

  set(block, lines) {
    const rows = lines.map((text) => Math.max(1, Math.ceil(Math.min(text.length, 2_000) / this.#columns)));
    this.#blocks.set(block, { rows, extra: rows.reduce((sum, one) => sum + one - 1, 0) });
  }

  size = (index) => this.#blocks.get(Math.floor(index / this.#size))?.rows[index % this.#size] ?? 1;

  offset = (index) => {
    const block = Math.floor(index / this.#size);
    let offset = index;
    for (const [place, { rows, extra }] of this.#blocks) {
      if (place < block) offset += extra;
      else if (place === block) for (let at = 0; at < index % this.#size; at++) offset += (rows[at] ?? 1) - 1;
    }
    return offset;
  };

  at = (offset) => {
    let low = 0;
    let high = Math.ceil(offset) + 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.offset(middle) <= offset) low = middle + 1;
      else high = middle;
    }
    return Math.max(0, low - 1);
  };

  total = (count) => this.offset(count);
}
