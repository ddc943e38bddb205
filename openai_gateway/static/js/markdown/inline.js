// Text within a block: emphasis, code, links. Gives data, no nodes:
//   {kind: "text"|"code", text} · {kind: "strong"|"em"|"del", children} · {kind: "link", href, children} · {kind: "break"}

import { safeAddress } from "./links.js";

const DEEPEST = 12;
const PUNCTUATION = /[!-/:-@[-`{-~]/;
const WORD = /[\p{L}\p{N}]/u;
const BREAK = /<br\s*\/?>/iy;
const ANGLED = /<((?:https?:\/\/|mailto:)[^\s<>]*)>/iy;
const BARE = /https?:\/\/[^\s<>"'`|\\]+/iy;
const EMPHASES = [
  ["**", "strong"],
  ["__", "strong"],
  ["~~", "del"],
  ["*", "em"],
  ["_", "em"],
];

export function parseInline(text, depth = 0) {
  return new Inline(text, depth).parse();
}

class Inline {
  constructor(text, depth) {
    this.text = text;
    this.depth = depth;
    this.at = 0;
    this.nodes = [];
    this.plain = "";
    this.absent = new Set(); // marks that do not come any more: a text full of half marks stays linear
  }

  parse() {
    while (this.at < this.text.length) {
      if (!this.special()) this.plain += this.text[this.at++];
    }
    this.flush();
    return this.nodes;
  }

  special() {
    switch (this.text[this.at]) {
      case "\\": return this.escape();
      case "\n": return this.add({ kind: "break" }, 1);
      case "`": return this.code();
      case "<": return this.angled();
      case "h": case "H": return this.bare();
      case "!": return this.text[this.at + 1] === "[" && this.link(1);
      case "[": return this.link(0);
      case "*": case "_": case "~": return this.emphasis();
      default: return false;
    }
  }

  escape() {
    const next = this.text[this.at + 1];
    if (next === undefined || !PUNCTUATION.test(next)) return false;
    this.plain += next;
    this.at += 2;
    return true;
  }

  code() {
    const marks = /`+/y;
    marks.lastIndex = this.at;
    const mark = marks.exec(this.text)[0];
    const end = this.find(mark, this.at + mark.length, (at) => this.text[at - 1] !== "`" && this.text[at + mark.length] !== "`");
    if (end < 0) {
      this.plain += mark;
      this.at += mark.length;
      return true;
    }
    const inside = this.text.slice(this.at + mark.length, end).replaceAll("\n", " ");
    const text = /^ .*[^ ].* $/.test(inside) ? inside.slice(1, -1) : inside;
    return this.add({ kind: "code", text }, end + mark.length - this.at);
  }

  angled() {
    const found = this.match(BREAK);
    if (found) return this.add({ kind: "break" }, found[0].length);
    const address = this.match(ANGLED);
    return address !== null && this.addLink(address[1], [{ kind: "text", text: address[1] }], address[0].length);
  }

  bare() {
    if (WORD.test(this.text[this.at - 1] ?? "")) return false;
    const found = this.match(BARE);
    if (found === null) return false;
    const address = withoutTrail(found[0]);
    return this.addLink(address, [{ kind: "text", text: address }], address.length);
  }

  /** [label](address "title"), and an image as a link to it: nothing is fetched for an answer. */
  link(skip) {
    if (this.depth >= DEEPEST) return false;
    const open = this.at + skip;
    const close = this.find("](", open + 1, () => true);
    if (close < 0) return false;
    const target = /\(\s*<?((?:[^\s()<>]|\([^\s()<>]*\))*)>?(?:\s+(?:"[^"]*"|'[^']*'))?\s*\)/y;
    target.lastIndex = close + 1;
    const found = target.exec(this.text);
    if (found === null) return false;
    const label = this.text.slice(open + 1, close);
    return this.addLink(found[1], parseInline(label || found[1], this.depth + 1), target.lastIndex - this.at);
  }

  emphasis() {
    if (this.depth >= DEEPEST) return false;
    for (const [mark, kind] of EMPHASES) {
      if (!this.text.startsWith(mark, this.at) || !this.opens(mark)) continue;
      const end = this.find(mark, this.at + mark.length + 1, (at) => this.closes(mark, at));
      if (end < 0) continue;
      const children = parseInline(this.text.slice(this.at + mark.length, end), this.depth + 1);
      return this.add({ kind, children }, end + mark.length - this.at);
    }
    return false;
  }

  opens(mark) {
    const next = this.text[this.at + mark.length];
    if (next === undefined || /\s/.test(next)) return false;
    return mark[0] !== "_" || !WORD.test(this.text[this.at - 1] ?? "");
  }

  closes(mark, at) {
    const before = this.text[at - 1];
    const after = this.text[at + mark.length] ?? "";
    if (/\s/.test(before) || before === "\\") return false;
    if (mark.length === 1 && (before === mark || after === mark)) return false; // half of a double one
    if (mark.length === 2 && after === mark[0]) return false; // of three, the last two
    return mark[0] !== "_" || !WORD.test(after);
  }

  find(mark, from, holds) {
    if (this.absent.has(mark)) return -1;
    for (let at = this.text.indexOf(mark, from); at >= 0; at = this.text.indexOf(mark, at + 1)) {
      if (holds(at)) return at;
    }
    this.absent.add(mark);
    return -1;
  }

  match(pattern) {
    pattern.lastIndex = this.at;
    return pattern.exec(this.text);
  }

  addLink(address, children, length) {
    const href = safeAddress(address);
    return href !== null && this.add({ kind: "link", href, children }, length);
  }

  add(node, length) {
    this.flush();
    this.nodes.push(node);
    this.at += length;
    return true;
  }

  flush() {
    if (this.plain) this.nodes.push({ kind: "text", text: this.plain });
    this.plain = "";
  }
}

/** A sentence's marks at the end of an address are the sentence's. */
function withoutTrail(address) {
  let end = address.length;
  while (end > 0) {
    const last = address[end - 1];
    const unopened = last === ")" && !address.slice(0, end).includes("(");
    if (!unopened && !".,;:!?*_~]".includes(last)) break;
    end--;
  }
  return address.slice(0, end);
}
