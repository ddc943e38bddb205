// One message as an article: its text, what can be done with it, its figures, and what went wrong.

import { element, icon } from "../element.js";
import { figureTexts, whole } from "../figures.js";
import { renderMarkdown } from "../markdown/render.js";
import { copyButton } from "./copy_button.js";

/** acts: {edit(message), again(), askKey()}; last: it is the conversation's last; idle: no answer is being written. */
export function messageView(message, acts, { last, idle }) {
  return message.role === "user" ? userView(message, acts, idle) : assistantView(message, acts, last && idle);
}

function userView(message, acts, idle) {
  const below = element("div", { class: "below" }, copyButton("Copy the message", () => message.text));
  if (idle) below.append(button("Edit the message", "edit", () => acts.edit(message)));
  return element(
    "article",
    { class: "message user", "data-id": message.id, "aria-label": "You" },
    element("div", { class: "bubble" }, message.text),
    below,
  );
}

function assistantView(message, acts, last) {
  const answering = message.state === "answering";
  const view = element(
    "article",
    { class: `message assistant ${message.state}`, "data-id": message.id, "aria-label": `Answer of ${message.model}`, "aria-busy": answering },
    element("span", { class: "message-from" }, message.model),
    element("div", { class: "markdown" }),
  );
  fill(view, message);
  if (answering) return view;
  view.append(...asides(message), ...(message.failure ? [failureView(message.failure, acts, last)] : []));
  view.append(below(message, acts, last));
  return view;
}

/** Show the text that has come so far. */
export function fill(view, message) {
  const place = view.querySelector(".markdown");
  const waiting = message.text === "" && message.state === "answering";
  if (waiting) place.replaceChildren(element("span", { class: "waiting" }, element("i"), element("i"), element("i")));
  else if (message.text !== "") {
    place.querySelector(".waiting")?.remove();
    renderMarkdown(place, message.text);
  }
}

function asides(message) {
  const words = [];
  if (message.finish === "length") words.push(lengthWords(message));
  if (message.state === "stopped") words.push("Stopped.");
  if (message.state === "left") words.push("The page was left before the answer ended.");
  if (message.state === "done" && message.text === "") words.push("The model ended without a word.");
  return words.map((text) => element("p", { class: "aside" }, text));
}

function lengthWords({ figures }) {
  const reached = figures?.tokens ? `after ${whole(figures.tokens)} tokens` : "there";
  return `The answer was cut ${reached}: the longest answer allowed, or the model's context, was reached.`;
}

function failureView({ title, said, status, retryAfter }, acts, last) {
  const choices = element("div", { class: "choices" });
  if (last && status === 401) choices.append(wordButton("Enter the key", acts.askKey));
  if (last) choices.append(wordButton("Try again", acts.again));
  const wait = retryAfter ? element("p", {}, `The gateway asks to wait ${whole(Math.ceil(retryAfter))} s.`) : null;
  return element(
    "div",
    { class: "failure", role: "alert" },
    icon("alert"),
    element("strong", {}, title),
    element("p", { class: "said" }, said),
    wait,
    last ? choices : null,
  );
}

function below(message, acts, last) {
  const row = element("div", { class: "below" });
  if (message.text) row.append(copyButton("Copy the answer", () => message.text));
  if (last && !message.failure) row.append(button("Answer again", "again", acts.again));
  const figures = figureTexts(message);
  if (figures.length > 0) row.append(element("span", { class: "figures" }, ...figures.map((text) => element("span", {}, text))));
  return row;
}

function button(label, drawing, act) {
  return element("button", { type: "button", class: "icon-button small", "aria-label": label, title: label, onclick: act }, icon(drawing));
}

function wordButton(label, act) {
  return element("button", { type: "button", class: "button small", onclick: act }, label);
}
