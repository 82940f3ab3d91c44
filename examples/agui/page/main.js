// The page: messages, open questions, and notes about answers in other interfaces.

import { element, members } from "./dom.js";
import { QuestionCard } from "./questions.js";
import { Thread, addressOf } from "./thread.js";

const PLACES = {
  agui: "another chat window", web: "the inbox page", inbox: "the command line", terminal: "a terminal", telegram: "Telegram",
  slack: "Slack", discord: "Discord", matrix: "Matrix", email: "a mail", ntfy: "ntfy",
};
const REJECTIONS = {
  expired: "The deadline has passed. Your answer was not used.",
  closed: "This question is no longer asked. Your answer was not used.",
  unknown: "This question is no longer asked. Your answer was not used.",
  changed: "The call has changed in the meantime. Check it again.",
  not_allowed: "You may not answer this question.",
  busy: "Another program is running the turn. Send the answer again.",
};
const find = (id) => document.getElementById(id);
const cards = new Map(); // by the address of the question
const shownMessages = new Map(); // message ID to its element and text
let problems = new Map();
let closed = new Set(); // addresses whose end has been shown

// The thread is in the address of the page, so that a reload continues it.
if (!location.hash) history.replaceState(null, "", `#${crypto.randomUUID()}`);
const thread = new Thread("agent/", decodeURIComponent(location.hash.slice(1)), {
  messages: showMessages,
  questions: showQuestions,
  rejected: showRejection,
  closed: (address, { answeredBy }) => close(address, answeredBy ? answered(answeredBy) : null),
  failed: showFailure,
  state: showState,
});
thread.start();
window.addEventListener("hashchange", () => location.reload());

// Messages
// ---------------------------------------------------------------------------------------------------------------------------

function showMessages(messages) {
  const isAtEnd = innerHeight + scrollY >= document.documentElement.scrollHeight - 80;
  const list = find("messages");
  const results = new Map(messages.filter((each) => each.role === "tool").map((each) => [each.toolCallId, each]));
  const ids = new Set();
  let last = null;
  for (const message of messages) {
    if (!["user", "assistant", "reasoning"].includes(message.role)) continue;
    ids.add(message.id);
    const made = messageElement(message, results);
    const place = last ? last.nextSibling : list.firstChild;
    if (made !== place && (!made.isConnected || made.compareDocumentPosition(place ?? made) & 2)) list.insertBefore(made, place);
    last = made;
  }
  for (const [id, { made }] of shownMessages) {
    if (ids.has(id)) continue;
    made.remove();
    shownMessages.delete(id);
  }
  for (const card of cards.values()) if (card.isSent) card.element.hidden = true; // the turn goes on
  find("empty").hidden = list.childElementCount > 0;
  if (isAtEnd) scrollTo({ top: document.documentElement.scrollHeight });
}

function messageElement(message, results) {
  const text = JSON.stringify([message, (message.toolCalls ?? []).map((call) => results.get(call.id))]);
  const known = shownMessages.get(message.id);
  if (known?.text === text) return known.made;
  const made = known?.made ?? element("div", {});
  made.className = `message ${message.role}`;
  if (message.toolCalls) {
    if (!known) made.append(...message.toolCalls.map(callElement));
    for (const call of message.toolCalls) showResult(made, call, results.get(call.id));
  } else if (message.role === "reasoning") {
    const folded = element("details", {}, element("summary", {}, "Thoughts"), element("p", { dir: "auto" }, contentOf(message)));
    made.replaceChildren(folded);
  } else {
    const who = element("span", { className: "unseen" }, message.role === "user" ? "You: " : "Agent: ");
    made.replaceChildren(who, element("p", { dir: "auto" }, contentOf(message)));
  }
  shownMessages.set(message.id, { made, text });
  return made;
}

function callElement(call) {
  const summary = element("summary", {}, element("code", {}, call.function.name), element("span", { className: "state" }));
  return element("details", { className: "call" }, summary, members(parsed(call.function.arguments)), element("pre", { hidden: true, dir: "auto" }));
}

function showResult(made, call, result) {
  const place = [...made.children].at(0);
  place.querySelector(".state").textContent = result ? " · done" : " · …";
  const shownArguments = place.querySelector("dl");
  shownArguments.replaceWith(members(parsed(call.function.arguments)));
  const output = place.querySelector(":scope > pre");
  output.hidden = !result;
  if (result) output.textContent = contentOf(result);
}

function parsed(text) {
  try {
    const value = JSON.parse(text || "{}");
    return typeof value === "object" && value !== null ? value : { arguments: value };
  } catch {
    return { arguments: text };
  }
}

function contentOf({ content }) {
  if (typeof content === "string") return content;
  return (content ?? []).map((part) => (part.type === "text" ? part.text : `[${part.type}]`)).join("\n");
}

// Questions
// ---------------------------------------------------------------------------------------------------------------------------

function showQuestions(interrupts) {
  const open = new Set(interrupts.map(addressOf));
  for (const address of [...cards.keys()]) if (!open.has(address)) close(address, closed.has(address) ? "" : undefined);
  let first = null;
  for (const interrupt of interrupts) {
    const address = addressOf(interrupt);
    const known = cards.get(address);
    if (known) known.update(interrupt);
    else first ??= addCard(address, interrupt);
    const card = cards.get(address);
    const problem = interrupt.metadata?.midturn?.problem;
    if (problems.has(address)) card.showProblems(problems.get(address));
    else if (problem) card.showProblems([{ pointer: "", message: problem }]);
  }
  problems = new Map();
  closed = new Set();
  find("blocked").hidden = !interrupts.length;
  if (!first) return;
  find("spoken").textContent = `Question: ${first.element.querySelector("h2").textContent}`;
  // the button of the last answer is gone; typing in another field is not interrupted
  if (document.activeElement === document.body) first.focus();
  first.element.scrollIntoView({ block: "nearest" });
}

function addCard(address, interrupt) {
  const card = new QuestionCard(interrupt, (entry) => thread.answer(card.interrupt.id, entry));
  cards.set(address, card);
  find("questions").append(card.element);
  return card;
}

/** Remove a question. `text` says who answered it; null: it was closed without an answer; undefined: find out. */
function close(address, text) {
  const card = cards.get(address);
  if (!card) return;
  cards.delete(address);
  card.forget();
  card.element.remove();
  if (text === undefined && card.isSent) return; // our own answer
  if (text === "") return;
  const asked = card.element.querySelector("h2").textContent;
  const isLate = card.interrupt.expiresAt && Date.parse(card.interrupt.expiresAt) <= Date.now() + 1000;
  addNote(asked, text ?? (isLate ? "The deadline has passed without an answer." : "The question was closed."));
}

function answered({ by, user, via, name, model }) {
  const who = user ?? name ?? model ?? by;
  return `Answered by ${who}${via ? ` in ${PLACES[via] ?? via}` : ""}.`;
}

function showRejection(value) {
  if (value.message !== undefined) {
    const words = find("words");
    const lost = contentOf(shownMessageOf(value.message));
    if (!words.value) words.value = lost; // it was not recorded
    addNote("", "The agent waits for an answer. Your message was not sent.");
    return;
  }
  const card = [...cards.values()].find((each) => each.interrupt.id === value.interruptId);
  if (!card) return;
  const address = addressOf(card.interrupt);
  if (value.why === "invalid") {
    problems.set(address, value.problems ?? []);
  } else if (value.why === "already_answered") {
    close(address, `${answered({ by: value.by ?? "somebody", via: value.via })} Your answer was not used.`);
    closed.add(address);
  } else {
    addNote(card.element.querySelector("h2").textContent, REJECTIONS[value.why] ?? "Your answer was not used.");
    closed.add(address);
  }
}

function shownMessageOf(id) {
  return { content: JSON.parse(shownMessages.get(id)?.text ?? '[{"content":""}]')[0].content };
}

/** Add a note to the messages. It is not part of the thread, so it is gone after a reload. */
function addNote(about, text) {
  const note = element("div", { className: "note" });
  if (about) note.append(element("p", { className: "asked", dir: "auto" }, about));
  note.append(element("p", { dir: "auto" }, text));
  find("messages").append(note);
  note.scrollIntoView({ block: "nearest" });
}

// State
// ---------------------------------------------------------------------------------------------------------------------------

function showState({ isRunning, isLost }) {
  const connection = find("connection");
  if (isLost !== undefined) {
    const text = isLost ? "Connection lost. Trying again …" : "";
    if (connection.textContent !== text) connection.textContent = text;
    connection.hidden = !isLost;
  }
  if (isRunning === undefined) return;
  find("running").hidden = !isRunning;
  find("messages").setAttribute("aria-busy", String(isRunning));
}

function showFailure(message, canRetry) {
  const note = element("div", { className: "note failed", role: "alert" }, element("p", { dir: "auto" }, message));
  if (canRetry) {
    const again = () => { note.remove(); thread.refresh(); };
    note.append(element("button", { type: "button", onclick: again }, "Try again"));
  }
  find("messages").append(note);
  for (const card of cards.values()) card.setBusy(false);
}

setInterval(() => { for (const card of cards.values()) card.tick(); }, 1000);

// The message of the user
// ---------------------------------------------------------------------------------------------------------------------------

find("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  const words = find("words");
  const text = words.value.trim();
  if (!text) return;
  if (cards.size) { // the agent takes no messages while it waits for an answer
    cards.values().next().value.focus();
    return;
  }
  words.value = "";
  thread.say(text);
});
find("words").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  find("composer").requestSubmit();
});
find("new").addEventListener("click", () => { location.hash = crypto.randomUUID(); });
