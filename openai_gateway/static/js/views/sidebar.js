// The list of conversations; on a narrow screen it slides over the page.

import { byId, element, icon } from "../element.js";

export class Sidebar {
  #root = byId("sidebar");
  #list = byId("conversations");
  #opener = byId("open-sidebar");
  #scrim = byId("scrim");
  #main = byId("main");

  constructor(chat, library, notices, focus) {
    this.chat = chat;
    this.library = library;
    this.notices = notices;
    this.focus = focus;
    byId("new-conversation").addEventListener("click", () => this.#leave(() => chat.start()));
    this.#opener.addEventListener("click", () => this.#open());
    byId("close-sidebar").addEventListener("click", () => this.close());
    this.#scrim.addEventListener("click", () => this.close());
    for (const what of ["opened", "listed", "changed"]) chat.addEventListener(what, () => this.show());
    matchMedia("(max-width: 52rem)").addEventListener("change", () => this.close(false));
    this.show();
  }

  get isOpen() {
    return this.#root.classList.contains("open");
  }

  show() {
    const focused = document.activeElement?.closest?.(".conversation")?.dataset.id;
    const rows = this.library.list().map((each) => this.#row(each));
    if (rows.length === 0) rows.push(element("li", { class: "no-conversations" }, "Conversations are kept here, in this browser."));
    this.#list.replaceChildren(...rows);
    if (focused) this.#list.querySelector(`[data-id="${focused}"] .conversation-name`)?.focus();
  }

  close(focus = true) {
    if (!this.isOpen) return;
    this.#toggle(false);
    if (focus) this.#opener.focus();
  }

  #open() {
    this.#toggle(true);
    byId("close-sidebar").focus();
  }

  #toggle(open) {
    this.#root.classList.toggle("open", open);
    this.#scrim.hidden = !open;
    this.#main.inert = open;
    this.#opener.setAttribute("aria-expanded", String(open));
  }

  /** Do something that shows another conversation, and let the reader write in it. */
  #leave(act) {
    this.close(false);
    act();
    this.focus();
  }

  #row({ id, title }) {
    const name = title || "Untitled";
    const current = id === this.chat.conversation.id;
    const looks = ["conversation", current && "current", this.chat.isAnswering(id) && "answering"].filter(Boolean);
    const open = element(
      "button",
      { type: "button", class: "conversation-name", title: name, "aria-current": current, onclick: () => this.#leave(() => this.chat.open(id)) },
      name,
    );
    const label = `Delete “${name}”`;
    const remove = element(
      "button",
      { type: "button", class: "icon-button small", "aria-label": label, title: "Delete", onclick: () => this.#remove(id, name) },
      icon("bin"),
    );
    return element("li", { class: looks.join(" "), "data-id": id }, open, remove);
  }

  #remove(id, name) {
    const removed = this.chat.remove(id);
    const undo = { label: "Undo", act: () => this.chat.restore(removed) };
    this.notices.say(`“${name}” was deleted.`, removed ? undo : null);
    (this.#list.querySelector(".conversation-name") ?? byId("new-conversation")).focus();
  }
}
