// Markdown's blocks, as data:
//   {kind: "paragraph", text} · {kind: "heading", level, text} · {kind: "rule"} · {kind: "quote", blocks}
//   {kind: "code", language, text} · {kind: "list", ordered, start, items: [{task, blocks}]}
//   {kind: "table", align: ["left"|"center"|"right"], head: [text], rows: [[text]]}
// A line break within a paragraph is kept, as people expect in a chat. An open fence is code up to the end: it may
// still be on its way.

import { takeTable } from "./table.js";

const DEEPEST = 16;
const FENCE = /^( {0,3})(`{3,}|~{3,})[ \t]*([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})[ \t]+(.*)$/;
const RULE = /^ {0,3}(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])(?:[ \t]+|$)/;
const TASK = /^\[([ xX])\][ \t]+/;

export function parseBlocks(text) {
  return blocksOf(text.replace(/\r\n?/g, "\n").replaceAll("\t", "    ").split("\n"), 0);
}

function blocksOf(lines, depth) {
  if (depth > DEEPEST) return [{ kind: "paragraph", text: lines.join("\n") }];
  const blocks = [];
  let at = 0;
  while (at < lines.length) {
    if (isBlank(lines[at])) {
      at++;
      continue;
    }
    const [block, next] = takeBlock(lines, at, depth);
    blocks.push(block);
    at = next;
  }
  return blocks;
}

/** The block that begins at this line, and the line after it. */
function takeBlock(lines, at, depth) {
  const line = lines[at];
  if (FENCE.test(line)) return takeCode(lines, at);
  const heading = HEADING.exec(line);
  if (heading) return [{ kind: "heading", level: heading[1].length, text: heading[2].replace(/\s+#+\s*$/, "").trim() }, at + 1];
  if (RULE.test(line)) return [{ kind: "rule" }, at + 1];
  if (QUOTE.test(line)) return takeQuote(lines, at, depth);
  if (isItem(line)) return takeList(lines, at, depth);
  return takeTable(lines, at) ?? takeParagraph(lines, at);
}

function takeCode(lines, at) {
  const [, indent, mark, info] = FENCE.exec(lines[at]);
  const end = new RegExp(`^ {0,3}\\${mark[0]}{${mark.length},} *$`);
  const body = [];
  let next = at + 1;
  while (next < lines.length && !end.test(lines[next])) body.push(withoutIndent(lines[next++], indent.length));
  const language = info.trim().split(/\s/)[0].toLowerCase();
  return [{ kind: "code", language, text: body.join("\n") }, next + 1];
}

function takeQuote(lines, at, depth) {
  const body = [];
  while (at < lines.length && QUOTE.test(lines[at])) body.push(lines[at++].replace(QUOTE, ""));
  return [{ kind: "quote", blocks: blocksOf(body, depth + 1) }, at];
}

function takeList(lines, at, depth) {
  const [, indent, mark] = ITEM.exec(lines[at]);
  const kind = kindOf(mark);
  const list = { kind: "list", ordered: kind === "1", start: kind === "1" ? Number.parseInt(mark, 10) : 1, items: [] };
  while (at < lines.length && isItem(lines[at]) && !RULE.test(lines[at])) {
    const found = ITEM.exec(lines[at]);
    if (kindOf(found[2]) !== kind || found[1].length > indent.length + 3) break;
    const [body, next] = takeItem(lines, at, found);
    const task = TASK.exec(body[0]);
    if (task) body[0] = body[0].slice(task[0].length);
    list.items.push({ task: task ? task[1] !== " " : null, blocks: blocksOf(body, depth + 1) });
    const following = afterBlanks(lines, next);
    at = following < lines.length && isItem(lines[following]) ? following : next;
  }
  return [list, at];
}

/** An item's lines without their indent. Models indent what belongs to an item by two, three or four spaces. */
function takeItem(lines, at, [whole, indent, mark]) {
  const width = Math.min(whole.length, indent.length + mark.length + 4);
  const nested = Math.min(width, indent.length + 2);
  const body = [lines[at].slice(width)];
  for (at++; at < lines.length; at++) {
    const line = lines[at];
    if (isBlank(line)) {
      const next = afterBlanks(lines, at);
      if (next === lines.length || indentOf(lines[next]) < nested) break;
      body.push("");
    } else if (indentOf(line) >= nested) {
      body.push(withoutIndent(line, width));
    } else if (beginsBlock(line) || body.at(-1) === "") {
      break;
    } else {
      body.push(line.trimStart());
    }
  }
  return [body, at];
}

function takeParagraph(lines, at) {
  const body = [lines[at++].trim()];
  while (at < lines.length && !isBlank(lines[at]) && !beginsBlock(lines[at])) body.push(lines[at++].trim());
  return [{ kind: "paragraph", text: body.join("\n") }, at];
}

function beginsBlock(line) {
  return FENCE.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line) || isItem(line);
}

function isItem(line) {
  return ITEM.test(line);
}

function kindOf(mark) {
  return /\d/.test(mark) ? "1" : mark;
}

function isBlank(line) {
  return line.trim() === "";
}

function afterBlanks(lines, at) {
  while (at < lines.length && isBlank(lines[at])) at++;
  return at;
}

function indentOf(line) {
  return line.length - line.trimStart().length;
}

function withoutIndent(line, width) {
  return line.slice(Math.min(width, indentOf(line)));
}
