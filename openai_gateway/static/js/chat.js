// The conversation that is open, and the answers that are being written. Views listen:
//   opened     another conversation is shown        changed   its messages are others or in another state
//   progress   a message has more text (detail)     listed    the library's list is another
//   full       the browser's storage is full        finished  an answer ended (detail: the message)

import { readAnswer } from "./answer.js";
import { newConversation, newMessage, requestOf, titleOf } from "./conversation.js";

const KEEP_EVERY_MS = 1000;

export class Chat extends EventTarget {
  #left = false;
  #running = new Map(); // conversation id -> {controller, conversation}

  constructor(gateway, library, conversation) {
    super();
    this.gateway = gateway;
    this.library = library;
    this.conversation = conversation;
  }

  get answering() {
    return this.#running.has(this.conversation.id);
  }

  isAnswering(id) {
    return this.#running.has(id);
  }

  /** Show the conversation of this id; a new one where there is none. */
  open(id) {
    const kept = this.#running.get(id)?.conversation ?? this.library.get(id);
    this.conversation = kept ?? newConversation(this.conversation.settings);
    this.#tell("opened");
  }

  start() {
    if (this.conversation.messages.length > 0) this.open(null);
    else this.#tell("opened");
  }

  /** Take the conversation out of the library; returns what `restore` puts back. */
  remove(id) {
    this.#running.get(id)?.controller.abort();
    const conversation = this.#running.get(id)?.conversation ?? this.library.get(id);
    this.#running.delete(id);
    this.library.remove(id);
    if (id === this.conversation.id) this.open(null);
    this.#tell("listed");
    return conversation;
  }

  restore(conversation) {
    this.#keep(conversation);
    this.open(conversation.id);
  }

  /** Change how the model is asked from here on. */
  set(settings) {
    Object.assign(this.conversation.settings, settings);
    if (this.conversation.messages.length > 0) this.#keep(this.conversation);
  }

  ask(text) {
    const { conversation } = this;
    if (this.answering || text.trim() === "") return;
    conversation.title ||= titleOf(text);
    conversation.messages.push(newMessage("user", text));
    return this.#answer(conversation);
  }

  /** Put `text` in the place of a message and forget what followed. */
  edit(message, text) {
    if (this.answering || text.trim() === "") return;
    const { conversation } = this;
    const place = conversation.messages.indexOf(message);
    conversation.messages.splice(place);
    if (place === 0) conversation.title = "";
    return this.ask(text);
  }

  /** Ask for the last answer again. */
  again() {
    const { messages } = this.conversation;
    if (this.answering || messages.length === 0) return;
    if (messages.at(-1).role === "assistant") messages.pop();
    return this.#answer(this.conversation);
  }

  stop() {
    this.#running.get(this.conversation.id)?.controller.abort();
  }

  /** The page is about to go: keep what is being written, and do not take the end of its connection for an error. */
  leave() {
    this.#left = true;
    for (const { conversation } of this.#running.values()) this.library.keep(conversation);
  }

  /** The page is shown again out of the browser's cache: what was being written was broken off. */
  comeBack() {
    this.#left = false;
    this.#running.clear();
    this.open(this.conversation.id);
  }

  async #answer(conversation) {
    const request = requestOf(conversation);
    const message = newMessage("assistant", "", { model: conversation.settings.model, state: "answering" });
    conversation.messages.push(message);
    conversation.changed = Date.now();
    const controller = new AbortController();
    const run = { controller, conversation };
    this.#running.set(conversation.id, run);
    this.#keep(conversation);
    this.#tell("changed");
    let kept = performance.now();
    await readAnswer(this.gateway, request, message, controller.signal, () => {
      this.#tell("progress", message);
      if (performance.now() - kept < KEEP_EVERY_MS || this.#running.get(conversation.id) !== run) return;
      kept = performance.now();
      this.library.keep(conversation);
    });
    if (this.#left || this.#running.get(conversation.id) !== run) return; // deleted meanwhile
    this.#running.delete(conversation.id);
    this.#keep(conversation);
    this.#tell("changed");
    this.#tell("finished", message);
  }

  #keep(conversation) {
    if (!this.library.keep(conversation)) this.#tell("full");
    this.#tell("listed");
  }

  #tell(what, detail = null) {
    this.dispatchEvent(new CustomEvent(what, { detail }));
  }
}
