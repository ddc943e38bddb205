// A table: a row of heads, a row of dashes, and rows.

const DASHES = /^:?-+:?$/;

/** [block, next line], or null where no table begins. */
export function takeTable(lines, at) {
  if (!lines[at].includes("|") || !lines[at + 1]?.includes("-")) return null;
  const head = splitRow(lines[at]);
  const dashes = splitRow(lines[at + 1]);
  if (dashes.length !== head.length || !dashes.every((cell) => DASHES.test(cell))) return null;
  const rows = [];
  let next = at + 2;
  while (next < lines.length && lines[next].includes("|")) {
    const cells = splitRow(lines[next++]);
    rows.push(head.map((_, column) => cells[column] ?? ""));
  }
  return [{ kind: "table", align: dashes.map(alignOf), head, rows }, next];
}

/** Cells between bars; an escaped bar is text. */
function splitRow(line) {
  const cells = [];
  let cell = "";
  const text = line.trim().replace(/^\|/, "");
  for (let at = 0; at < text.length; at++) {
    if (text[at] === "\\" && text[at + 1] === "|") {
      cell += "|";
      at++;
    } else if (text[at] === "|") {
      cells.push(cell.trim());
      cell = "";
    } else {
      cell += text[at];
    }
  }
  if (cell.trim() !== "" || cells.length === 0) cells.push(cell.trim());
  return cells;
}

function alignOf(dashes) {
  if (!dashes.endsWith(":")) return "left";
  return dashes.startsWith(":") ? "center" : "right";
}
