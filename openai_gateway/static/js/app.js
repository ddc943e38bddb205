// Puts the parts together.

import { ApiKey } from "./api_key.js";
import { Chat } from "./chat.js";
import { newConversation } from "./conversation.js";
import { byId } from "./element.js";
import { Gateway } from "./gateway.js";
import { isShelf, Library } from "./library.js";
import { nameOf, Vault } from "./vault.js";
import { announce } from "./views/announcer.js";
import { Composer } from "./views/composer.js";
import { ModelPicker } from "./views/model_picker.js";
import { ModelsView } from "./views/models_view.js";
import { Notices } from "./views/notices.js";
import { SettingsPanel } from "./views/settings_panel.js";
import { Sidebar } from "./views/sidebar.js";
import { watchTheme } from "./views/theme.js";
import { Thread } from "./views/thread.js";

const ASK_AGAIN_MS = 3000; // for the models, while the gateway is away

const vault = new Vault();
const apiKey = new ApiKey();
const gateway = new Gateway(() => apiKey.get());
const library = new Library(vault);
const chat = new Chat(gateway, library, library.get(vault.get("open", "")) ?? newConversation(vault.get("settings", {})));

const notices = new Notices();
const composer = new Composer(chat);
const settings = new SettingsPanel(chat, apiKey, () => refresh());
const sidebar = new Sidebar(chat, library, notices, () => composer.focus());
const picker = new ModelPicker(chat, use);
new ModelsView(gateway, use, () => refresh());
const acts = { fill: (text) => composer.fill(text), focus: () => composer.focus(), askKey: () => settings.openKey() };
new Thread(chat, acts);
announce(chat);
watchTheme(vault);

function use(model) {
  chat.set({ model });
  vault.set("settings", chat.conversation.settings);
  chat.dispatchEvent(new CustomEvent("opened"));
  composer.focus();
}

let asking = null; // the timer of the next question while the gateway is away
let keyAsked = false;

/** Ask for the models; as long as there are none, again and again. */
async function refresh() {
  clearTimeout(asking);
  try {
    const models = await gateway.models();
    picker.offer(models.map(({ id }) => id));
    if (chat.conversation.messages.length === 0) chat.dispatchEvent(new CustomEvent("opened"));
    if (models.length > 0) return;
  } catch (failure) {
    picker.away(failure.title);
    if (failure.status === 401) return askKeyOnce();
  }
  asking = setTimeout(refresh, ASK_AGAIN_MS);
}

function askKeyOnce() {
  if (keyAsked) return notices.say("The gateway does not take this key.", { label: "Enter another", act: () => settings.openKey() });
  keyAsked = true;
  settings.openKey();
}

chat.addEventListener("full", () => notices.say("The browser's storage is full: this is not kept. Delete a conversation."));
chat.addEventListener("finished", ({ detail }) => detail.failure && refresh());
for (const what of ["opened", "changed"]) {
  chat.addEventListener(what, () => {
    const { id, title, messages } = chat.conversation;
    vault.set("open", messages.length > 0 ? id : "");
    document.title = title ? `${title} · triton-llm` : "triton-llm";
  });
}

for (const dialog of document.querySelectorAll("dialog")) {
  dialog.addEventListener("click", ({ target }) => {
    if (target === dialog || target.closest("[data-close]")) dialog.close(); // the backdrop is the dialog itself
  });
  dialog.addEventListener("close", () => vault.set("settings", chat.conversation.settings));
}

addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || event.defaultPrevented || document.querySelector("dialog[open]")) return;
  if (sidebar.isOpen) sidebar.close();
  else chat.stop();
});
addEventListener("pagehide", () => chat.leave());
addEventListener("pageshow", ({ persisted }) => persisted && chat.comeBack());
addEventListener("storage", (event) => {
  if (event.key === null || isShelf(nameOf(event) ?? "")) sidebar.show();
});
byId("prompt").focus();
refresh();
