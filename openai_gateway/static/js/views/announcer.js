// Tells a screen reader that an answer began and what it was, rather than each word as it comes.

import { byId } from "../element.js";

const LONGEST = 600; // characters read aloud; the rest is on the page

export function announce(chat) {
  const place = byId("announcer");
  chat.addEventListener("changed", () => {
    if (chat.answering) place.textContent = "The model is answering.";
  });
  chat.addEventListener("finished", ({ detail: { text, state } }) => {
    const end = { done: "The answer", stopped: "Stopped. So far" }[state];
    if (end && text) place.textContent = `${end}: ${text.slice(0, LONGEST)}`;
    else place.textContent = state === "stopped" ? "Stopped." : "";
  });
}
