// Markdown as DOM nodes. Every piece of an answer becomes a text node: there is no HTML to inject into.

import { copyButton } from "../views/copy_button.js";
import { element } from "../element.js";
import { parseBlocks } from "./blocks.js";
import { highlight } from "./highlight.js";
import { parseInline } from "./inline.js";

const shown = new WeakMap(); // container -> JSON of each of its blocks

/** Show `text` in `container`. Blocks that did not change keep their nodes: a stream moves only its last ones. */
export function renderMarkdown(container, text) {
  const blocks = parseBlocks(text);
  const before = shown.get(container) ?? [];
  const now = blocks.map((block) => JSON.stringify(block));
  blocks.forEach((block, place) => {
    if (now[place] === before[place]) return;
    const old = container.children[place];
    if (old === undefined) container.append(blockNode(block));
    else if (!refilled(old, block)) old.replaceWith(blockNode(block));
  });
  while (container.children.length > blocks.length) container.lastElementChild.remove();
  shown.set(container, now);
}

const BLOCKS = {
  paragraph: ({ text }) => element("p", {}, ...inlineNodes(text)),
  heading: ({ level, text }) => element(`h${Math.min(level + 1, 6)}`, {}, ...inlineNodes(text)),
  rule: () => element("hr"),
  quote: ({ blocks }) => element("blockquote", {}, ...blocks.map(blockNode)),
  code: codeNode,
  list: listNode,
  table: tableNode,
};

function blockNode(block) {
  return BLOCKS[block.kind](block);
}

function listNode({ ordered, start, items }) {
  const attributes = ordered && start !== 1 ? { start } : {};
  return element(ordered ? "ol" : "ul", attributes, ...items.map(itemNode));
}

function itemNode({ task, blocks }) {
  const mark = task === null ? [] : [element("input", { type: "checkbox", disabled: true, checked: task, "aria-label": task ? "done" : "to do" }), " "];
  const [first, ...rest] = blocks;
  const start = first?.kind === "paragraph" ? inlineNodes(first.text) : blocks.slice(0, 1).map(blockNode);
  return element("li", task === null ? {} : { class: "task" }, ...mark, ...start, ...rest.map(blockNode));
}

function tableNode({ align, head, rows }) {
  const look = (column) => (align[column] === "left" ? {} : { class: align[column] });
  const row = (cells, tag) => element("tr", {}, ...cells.map((text, column) => element(tag, look(column), ...inlineNodes(text))));
  const table = element(
    "table",
    {},
    element("thead", {}, row(head, "th")),
    element("tbody", {}, ...rows.map((cells) => row(cells, "td"))),
  );
  return element("div", { class: "table", tabindex: "0", role: "region", "aria-label": "Table" }, table);
}

function codeNode(block) {
  const code = element("code", {}, ...codeParts(block));
  const name = block.language || "text";
  return element(
    "figure",
    { class: "code", "data-language": block.language },
    element("figcaption", {}, element("span", {}, name), copyButton("Copy the code", () => code.textContent)),
    element("pre", { tabindex: "0", role: "region", "aria-label": `Code, ${name}` }, code),
  );
}

/** A code block that grows keeps its node, its scroll position and its button. */
function refilled(node, block) {
  if (block.kind !== "code" || node.dataset.language !== block.language) return false;
  node.querySelector("code").replaceChildren(...codeParts(block));
  return true;
}

function codeParts({ text, language }) {
  return highlight(text, language).map(([look, part]) => (look ? element("span", { class: look }, part) : part));
}

const INLINE = {
  text: ({ text }) => text,
  code: ({ text }) => element("code", {}, text),
  break: () => element("br"),
  strong: ({ children }) => element("strong", {}, ...children.map(inlineNode)),
  em: ({ children }) => element("em", {}, ...children.map(inlineNode)),
  del: ({ children }) => element("del", {}, ...children.map(inlineNode)),
  link: ({ href, children }) =>
    element("a", { href, target: "_blank", rel: "noopener noreferrer nofollow" }, ...children.map(inlineNode)),
};

function inlineNode(node) {
  return INLINE[node.kind](node);
}

function inlineNodes(text) {
  return parseInline(text).map(inlineNode);
}
