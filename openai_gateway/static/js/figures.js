// Figures as people read them.

/** ["128 tokens", "41 tokens/s", "first after 120 ms"]: what is known of an answer. */
export function figureTexts({ figures, state }) {
  if (!figures) return [];
  const { firstMs, totalMs, tokens, rate } = figures;
  const texts = [];
  if (tokens !== null && tokens !== undefined) texts.push(`${whole(tokens)} ${tokens === 1 ? "token" : "tokens"}`);
  if (rate) texts.push(`${rate < 100 ? rate.toFixed(1) : whole(Math.round(rate))} tokens/s`);
  texts.push(`first after ${duration(firstMs)}`);
  if (state === "stopped") texts.push(`stopped after ${duration(totalMs)}`);
  return texts;
}

export function duration(milliseconds) {
  if (milliseconds < 999.5) return `${Math.round(milliseconds)} ms`;
  return `${(milliseconds / 1000).toFixed(milliseconds < 9950 ? 2 : 1)} s`;
}

export function whole(number) {
  return number.toLocaleString("en");
}
