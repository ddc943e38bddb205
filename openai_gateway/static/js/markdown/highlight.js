// Colours for code: comments, strings, numbers and key words, without knowing any language well.

const LONGEST = 20000; // characters; beyond that it stays plain
const HASH = ["python", "py", "sh", "bash", "shell", "console", "yaml", "yml", "toml", "ruby", "rb", "r", "perl", "make", "makefile", "dockerfile", "elixir", "julia"];
const DASH = ["sql", "lua", "haskell", "hs"];
const SLASH = ["js", "javascript", "jsx", "ts", "typescript", "tsx", "java", "c", "cpp", "c++", "cs", "csharp", "go", "rust", "rs", "swift", "kotlin", "php", "scala", "dart", "json", "jsonc", "css", "scss", "cuda", "proto"];
const KEYWORDS = new Set(
  `abstract and as assert async await begin bool boolean break case catch char class const continue def default defer del
  delete do done double elif else elsif end enum esac except export extends extern false False fi final finally fn for
  foreach from func function global goto if impl implements import in instanceof interface is lambda let local long loop
  match module mut namespace new nil None nonlocal not null nullptr or package pass private protected pub public raise
  readonly return Self self short sizeof static struct super switch template then this throw throws trait true True try
  typedef typeof undefined union unless unsafe unsigned until using var virtual void volatile when while with yield`
    .split(/\s+/),
);
const SQL = new Set(
  `all alter and as asc between by case count create default delete desc distinct drop else end exists from full group
  having in index inner insert into is join key left like limit not null on or order outer primary references right select
  set sum table then union unique update using values view when where with`.split(/\s+/),
);
const STRING = String.raw`"""[\s\S]*?(?:"""|$)|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?|` + "`(?:\\\\.|[^`\\\\])*`?";
const REST = String.raw`(?<number>\b(?:0[xob][\da-f_]+|\d[\d_]*(?:\.\d+)?(?:e[+-]?\d+)?)\b)|(?<word>[\p{L}_$][\p{L}\p{N}_$]*)`;
const COMMENT = { hash: "#[^\\n]*", dash: "--[^\\n]*", slash: "\\/\\/[^\\n]*|\\/\\*[\\s\\S]*?(?:\\*\\/|$)" };

/** [[look, text]] that concatenate to `text`; look: "" for plain. */
export function highlight(text, language) {
  const style = styleOf(language);
  if (style === null || text.length > LONGEST) return [["", text]];
  const pattern = new RegExp(`(?<comment>${COMMENT[style]})|(?<string>${STRING})|${REST}`, "giu");
  const parts = [];
  let at = 0;
  for (const found of text.matchAll(pattern)) {
    const look = lookOf(found, text, style);
    if (look === "") continue;
    if (found.index > at) parts.push(["", text.slice(at, found.index)]);
    parts.push([look, found[0]]);
    at = found.index + found[0].length;
  }
  if (at < text.length) parts.push(["", text.slice(at)]);
  return parts;
}

function styleOf(language) {
  if (HASH.includes(language)) return "hash";
  if (DASH.includes(language)) return "dash";
  return SLASH.includes(language) ? "slash" : null;
}

function lookOf({ groups, index, 0: whole }, text, style) {
  if (groups.comment) return "comment";
  if (groups.string) return "string";
  if (groups.number) return "number";
  if (style === "dash" ? SQL.has(whole.toLowerCase()) : KEYWORDS.has(whole)) return "keyword";
  return text[index + whole.length] === "(" ? "name" : "";
}
