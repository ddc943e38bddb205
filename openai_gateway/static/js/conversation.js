// A conversation: its messages and how the model is asked. Plain data, since it is kept as JSON.

export const DEFAULTS = { model: "", system: "", temperature: 0.7, length: 1024 };

const TITLE_LENGTH = 80;

/** settings: {model, system, temperature: 0–2, length: tokens or null for the model's own limit}. */
export function newConversation(settings) {
  return { id: newId(), title: "", changed: Date.now(), settings: { ...DEFAULTS, ...settings }, messages: [] };
}

export function newMessage(role, text, more = {}) {
  return { id: newId(), role, text, state: "done", ...more };
}

/** The first line of the first message. */
export function titleOf(text) {
  const line = text.trim().split("\n", 1)[0];
  return line.length > TITLE_LENGTH ? `${line.slice(0, TITLE_LENGTH - 1)}…` : line;
}

/**
 * The body of a chat completion that answers the last message.
 * Neighbours of one role (a question whose answer never came) are joined: templates want them to alternate.
 */
export function requestOf({ settings, messages }) {
  const turns = [];
  for (const { role, text } of messages) {
    if (text === "") continue;
    const last = turns.at(-1);
    if (last?.role === role) last.content += `\n\n${text}`;
    else turns.push({ role, content: text });
  }
  const system = settings.system.trim();
  const request = {
    model: settings.model,
    messages: system ? [{ role: "system", content: system }, ...turns] : turns,
    temperature: settings.temperature,
  };
  if (settings.length) request.max_tokens = settings.length;
  return request;
}

function newId() {
  // crypto.randomUUID exists on https and localhost alone.
  return Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
