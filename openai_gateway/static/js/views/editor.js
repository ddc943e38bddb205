// Changing a message that was sent: what followed it is asked anew.

import { element } from "../element.js";

/** done: called with the new text, or with null when nothing is to change. */
export function editor(text, done) {
  const field = element("textarea", { rows: "2", "aria-label": "Change the message" });
  field.value = text;
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      send();
    } else if (event.key === "Escape") {
      event.stopPropagation();
      done(null);
    }
  });
  const send = () => field.value.trim() && done(field.value);
  const choices = element(
    "div",
    { class: "choices" },
    element("button", { type: "button", class: "button small", onclick: () => done(null) }, "Leave it"),
    element("button", { type: "button", class: "button small primary", onclick: send }, "Ask this"),
  );
  return { view: element("div", { class: "editor" }, field, choices), field };
}
