// Colours for code: comments, strings, numbers and key words, without knowing any language well.

const LONGEST = 20000; // characters; beyond that it stays plain
const HASH = ["python", "py", "sh", "bash", "shell", "console", "yaml", "yml", "toml", "ruby", "rb", "r", "perl", "make", "makefile", "dockerfile", "elixir", "julia"];
const DASH = ["sql", "lua", "haskell", "hs"];
const SLASH = ["js", "javascript", "jsx", "ts", "typescript", "tsx", "java", "c", "cpp", "c++", "cs", "csharp", "go", "rust", "rs", "swift", "kotlin", "php", "scala", "dart", "json", "jsonc", "css", "scss", "cuda", "proto"];
const KEYWORDS = new Set(
  `abstract alter and as assert async await begin bool boolean break case catch char class const continue create debug
  declare def default defer del delete desc distinct do double drop elif else elsif end enum except export extends
  extern false False final finally float fn for foreach from func function global go goto group having if impl implements
  import in inner insert instanceof int interface into is join lambda left let limit long loop match mod module mut
  namespace new nil None nonlocal not null nullptr of on or order outer package pass private protected pub public raise
  readonly return right Self select self set short signed sizeof static string struct super switch table template then
  this throw throws trait true True try type typedef typeof undefined union unless unsafe unsigned until update use using
  values var virtual void volatile when where while with yield`.split(/\s+/),
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
  if (KEYWORDS.has(whole) || (style === "dash" && KEYWORDS.has(whole.toLowerCase()))) return "keyword";
  return text[index + whole.length] === "(" ? "name" : "";
}
