// Which addresses an answer may link to.

const SCHEMES = new Set(["http:", "https:", "mailto:"]);

/** The address in normal form, or null where it is relative, malformed or of a scheme that could run something. */
export function safeAddress(text) {
  try {
    const url = new URL(text);
    return SCHEMES.has(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}
