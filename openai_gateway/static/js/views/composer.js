// The box below: writing, sending, stopping.

import { byId } from "../element.js";

export class Composer {
  #field = byId("prompt");
  #send = byId("send");
  #stop = byId("stop");

  constructor(chat) {
    this.chat = chat;
    byId("composer").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#ask();
    });
    this.#field.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.#ask();
    });
    this.#field.addEventListener("input", () => this.#look());
    this.#stop.addEventListener("click", () => chat.stop());
    for (const what of ["opened", "changed"]) chat.addEventListener(what, () => this.#look());
    this.#look();
  }

  fill(text) {
    this.#field.value = text;
    this.#look();
    this.focus();
  }

  focus() {
    this.#field.focus({ preventScroll: true });
  }

  #ask() {
    const text = this.#field.value;
    if (this.chat.answering || text.trim() === "" || !this.chat.conversation.settings.model) return;
    this.#field.value = "";
    this.chat.ask(text);
    this.#look();
    this.focus();
  }

  #look() {
    const { answering, conversation } = this.chat;
    const stopFocused = document.activeElement === this.#stop;
    this.#send.hidden = answering;
    this.#stop.hidden = !answering;
    this.#send.disabled = this.#field.value.trim() === "" || !conversation.settings.model;
    if (stopFocused && !answering) this.focus();
    this.#grow();
  }

  /** For browsers that do not size a field to its content by themselves. */
  #grow() {
    if (CSS.supports("field-sizing", "content")) return;
    this.#field.style.height = "auto";
    this.#field.style.height = `${this.#field.scrollHeight}px`;
  }
}
