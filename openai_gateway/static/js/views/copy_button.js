// A button that copies, and says that it did.

import { copyText } from "../clipboard.js";
import { element, icon } from "../element.js";

const SHOWN_MS = 1600;

/** text: () => what to copy. */
export function copyButton(label, text) {
  const button = element("button", { type: "button", class: "icon-button small", "aria-label": label, title: label }, icon("copy"));
  const say = (words, drawing) => {
    button.replaceChildren(icon(drawing));
    button.setAttribute("aria-label", words);
  };
  button.addEventListener("click", async () => {
    const copied = await copyText(text());
    say(copied ? "Copied" : "The browser does not allow copying", copied ? "check" : "alert");
    setTimeout(() => say(label, "copy"), SHOWN_MS);
  });
  return button;
}
