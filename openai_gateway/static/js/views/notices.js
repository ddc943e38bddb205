// A line above the box that goes away by itself.

import { byId, element, icon } from "../element.js";

const SHOWN_MS = 8000;

export class Notices {
  #root = byId("notices");

  /** choice: {label, act} for a button, or null. The last notice is the only one. */
  say(text, choice = null) {
    const notice = element("div", { class: "notice" }, element("span", {}, text));
    const close = () => notice.remove();
    if (choice) {
      const act = () => {
        close();
        choice.act();
      };
      notice.append(element("button", { type: "button", class: "button small", onclick: act }, choice.label));
    }
    notice.append(element("button", { type: "button", class: "icon-button small", "aria-label": "Close", onclick: close }, icon("close")));
    this.#root.replaceChildren(notice);
    setTimeout(() => notice.matches(":hover, :focus-within") || close(), SHOWN_MS);
  }
}
