// The empty page: a greeting and a few things to begin with.

import { element, icon } from "../element.js";

const STARTERS = [
  ["Explain", "how a key-value cache speeds up a language model"],
  ["Write", "a Python function that merges two sorted lists"],
  ["Compare", "continuous and static batching in a short table"],
  ["Suggest", "three names for a sailing boat, with reasons"],
];

/** fill: called with the text of a starter that was chosen. */
export function welcome(model, fill) {
  const starters = STARTERS.map(([verb, rest]) =>
    element(
      "button",
      { type: "button", class: "starter", onclick: () => fill(`${verb} ${rest}.`) },
      element("strong", {}, verb),
      element("span", {}, rest),
    ),
  );
  return element(
    "section",
    { class: "welcome", "aria-label": "Begin" },
    icon("logo", "logo"),
    element("h1", {}, model ? `Ask ${model}` : "No model is served yet"),
    element("p", {}, "What you write goes to this server and is kept in this browser only."),
    element("div", { class: "starters" }, ...starters),
  );
}
