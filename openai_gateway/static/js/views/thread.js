// The conversation's messages, and the empty page before the first.

import { byId } from "../element.js";
import { editor } from "./editor.js";
import { fill, messageView } from "./message_view.js";
import { welcome } from "./welcome.js";

const NEAR_PX = 80; // so near the end counts as at the end

export class Thread {
  #root = byId("thread");
  #scroll = byId("scroll");
  #toEnd = byId("to-end");
  #follows = true; // the reader is at the end and wants to stay there
  #waiting = null; // a message to draw at the next frame

  constructor(chat, acts) {
    this.chat = chat;
    this.acts = { ...acts, edit: (message) => this.#edit(message), again: () => chat.again() };
    chat.addEventListener("opened", () => this.#show(true));
    chat.addEventListener("changed", () => this.#show(false));
    chat.addEventListener("progress", ({ detail }) => this.#move(detail));
    this.#scroll.addEventListener("scroll", () => this.#look());
    this.#toEnd.addEventListener("click", () => this.#goToEnd());
    new ResizeObserver(() => this.#follow()).observe(this.#root);
    this.#show(true);
  }

  /** Draw everything; the nodes of messages that are as they were stay. */
  #show(opened) {
    const { conversation, answering } = this.chat;
    const { messages } = conversation;
    const focused = document.activeElement?.closest?.(".message")?.dataset.id;
    const views = messages.map((message, place) => {
      const last = place === messages.length - 1;
      return messageView(message, this.acts, { last, idle: !answering });
    });
    if (views.length === 0) views.push(welcome(conversation.settings.model, (text) => this.acts.fill(text)));
    this.#root.replaceChildren(...views);
    if (focused && document.activeElement === document.body) this.acts.focus();
    if (opened || answering) this.#follows = true;
    this.#follow();
  }

  #move(message) {
    if (this.#waiting === null) requestAnimationFrame(() => this.#draw());
    this.#waiting = message;
  }

  #draw() {
    const message = this.#waiting;
    this.#waiting = null;
    const view = this.#root.querySelector(`[data-id="${message.id}"]`);
    if (view === null || message.state !== "answering") return; // of another conversation, or already drawn whole
    fill(view, message);
    this.#follow();
  }

  #edit(message) {
    const view = this.#root.querySelector(`[data-id="${message.id}"]`);
    const { view: form, field } = editor(message.text, (text) => {
      if (text === null) this.#show(false);
      else this.chat.edit(message, text);
      this.acts.focus();
    });
    view.replaceChildren(form);
    field.focus();
  }

  #look() {
    const { scrollHeight, scrollTop, clientHeight } = this.#scroll;
    this.#follows = scrollHeight - scrollTop - clientHeight < NEAR_PX;
    this.#toEnd.hidden = this.#follows;
  }

  #follow() {
    if (this.#follows) this.#scroll.scrollTop = this.#scroll.scrollHeight;
    this.#look();
  }

  #goToEnd() {
    this.#follows = true;
    this.#follow();
    this.acts.focus();
  }
}
