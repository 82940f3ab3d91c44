// An open question (an interrupt) as a form.

import { element, members, shown } from "./dom.js";
import { createField, createFields, plain, readFields, showProblems } from "./fields.js";

const DRAFTS = "draft ";

/** Return the entry of an answer. */
const resolved = (payload) => ({ status: "resolved", payload });
const withMetadata = (midturn) => ({ status: "cancelled", metadata: { midturn } });

export class QuestionCard {
  #send;
  #version = "";
  #fields = [];
  #problem = element("p", { className: "problem", role: "alert", hidden: true, dir: "auto" });
  #waiting = element("p", { className: "deadline", role: "timer" });

  /**
   * @param interrupt - The interrupt of the question.
   * @param send - Called with the entry of an answer.
   */
  constructor(interrupt, send) {
    this.#send = send;
    this.element = element("article", { className: "question" });
    this.element.setAttribute("aria-labelledby", `asked ${interrupt.id}`);
    this.update(interrupt);
  }

  /** Show a newer state of the question. Entered values are kept. */
  update(interrupt) {
    this.interrupt = interrupt;
    this.details = interrupt.metadata?.midturn ?? {};
    const version = JSON.stringify([interrupt.responseSchema, this.details]);
    if (version !== this.#version) this.#build();
    this.#version = version;
    this.setBusy(false);
    this.isSent = false;
    this.element.hidden = false;
    this.tick();
  }

  /** Show the problems of the last answer next to their fields. */
  showProblems(problems) {
    const others = showProblems(this.#fields, problems);
    this.#problem.textContent = others.join(" ");
    this.#problem.hidden = !others.length;
  }

  setBusy(isBusy) {
    this.element.setAttribute("aria-busy", String(isBusy));
    for (const button of this.element.querySelectorAll("button")) button.disabled = isBusy;
  }

  /** Show the time until the deadline. */
  tick(now = Date.now()) {
    const deadline = this.interrupt.expiresAt;
    this.#waiting.hidden = !deadline;
    if (!deadline) return;
    const seconds = Math.ceil((Date.parse(deadline) - now) / 1000);
    this.#waiting.textContent = seconds > 0 ? `Answer within ${duration(seconds)}.` : "The deadline has passed.";
    this.#waiting.classList.toggle("soon", seconds <= 30);
    if (seconds <= 0) this.setBusy(true);
  }

  focus() {
    this.element.querySelector("h2")?.focus();
  }

  // Drafts: what was typed stays, also after a reload. Passwords are not stored.
  // ---------------------------------------------------------------------------------------------------------------------------

  #save() {
    const draft = {};
    for (const control of this.element.querySelectorAll("[name]")) {
      if (control.type === "password") continue;
      if (control.type === "radio" || control.type === "checkbox") draft[`${control.name}=${control.value}`] = control.checked;
      else draft[control.name] = control.value;
    }
    sessionStorage.setItem(DRAFTS + this.interrupt.id, JSON.stringify(draft));
  }

  #restore() {
    const draft = JSON.parse(sessionStorage.getItem(DRAFTS + this.interrupt.id) ?? "{}");
    for (const control of this.element.querySelectorAll("[name]")) {
      const isChoice = control.type === "radio" || control.type === "checkbox";
      const kept = draft[isChoice ? `${control.name}=${control.value}` : control.name];
      if (kept === undefined) continue;
      if (isChoice) control.checked = kept;
      else control.value = kept;
      if (kept && control.closest("details")) control.closest("details").open = true;
    }
  }

  /** Forget the draft of a question that is closed. */
  forget() {
    sessionStorage.removeItem(DRAFTS + this.interrupt.id);
  }

  // Parts
  // ---------------------------------------------------------------------------------------------------------------------------

  #build() {
    const { interrupt, details } = this;
    const title = element("h2", { id: `asked ${interrupt.id}`, tabIndex: -1, dir: "auto" }, titleOf(interrupt, details));
    const parts = [element("p", { className: "who" }, element("span", { className: "name" }, details.tool ?? "The agent"), asks(details))];
    parts.push(title, this.#waiting);
    const context = details.question?.context;
    if (context && details.form === undefined) parts.push(element("div", { className: "context", dir: "auto" }, context));
    const votes = details.people?.needed > 1 ? `${details.people.needed} people have to approve.` : null;
    if (votes) parts.push(element("p", { className: "muted" }, votes));
    this.#fields = [];
    parts.push(...(interrupt.responseSchema && details.answerable !== false ? this.#controls() : [this.#elsewhere()]));
    const hadFocus = this.element.contains(document.activeElement);
    this.element.replaceChildren(...parts);
    this.#restore();
    this.element.oninput = () => { this.#showConditions(); this.#save(); };
    this.#showConditions();
    if (hadFocus) this.focus();
  }

  #elsewhere() {
    const where = this.details.where ?? "the inbox, by a person who may answer it";
    return element("p", { className: "muted" }, `This question is answered in ${where}.`);
  }

  #controls() {
    const schema = this.interrupt.responseSchema;
    const properties = schema.properties ?? {};
    if (properties.approved) return this.#approval(schema);
    const isForm = this.details.form !== undefined || !properties.answer;
    return isForm ? this.#form(schema) : this.#single(schema);
  }

  /** One question. Yes and no are buttons. */
  #single(schema) {
    const reason = optional(schema, "reason", "Reason");
    const remember = optional(schema, "remember");
    const besides = () => readFields([reason, remember].filter(Boolean), []);
    const more = this.#more(reason);
    if (plain(schema.properties.answer, schema).type === "boolean") {
      const answer = (value) => () => this.#submit(resolved({ answer: value, ...besides() }));
      const yesOrNo = buttons(button("No", answer(false)), button("Yes", answer(true), "primary"));
      return [this.#problem, remember?.element, yesOrNo, ...more].filter(Boolean);
    }
    const field = createField(schema.properties.answer, {
      root: schema, pointer: "/answer", label: "Answer", isRequired: (schema.required ?? []).includes("answer"),
    });
    field.name = "answer";
    return this.#formOf([field], (values) => resolved({ ...values, ...besides() }), "Answer", more, remember?.element);
  }

  #form(schema) {
    const fields = createFields(schema, { root: schema, pointer: "" });
    return this.#formOf(fields, (values) => resolved(values), "Send answers", this.#more(null));
  }

  #formOf(fields, entryOf, label, more, below = null) {
    this.#fields = fields;
    const form = element("form", { noValidate: true }, ...fields.map((each) => each.element), below, this.#problem);
    form.append(buttons(button(label, null, "primary")));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const problems = [];
      const values = readFields(fields, problems);
      this.showProblems(problems);
      if (!problems.length) this.#submit(entryOf(values));
    });
    return [form, ...more];
  }

  /** Show the questions of a form whose condition holds. */
  #showConditions() {
    const conditions = new Map();
    for (const each of this.details.form?.questions ?? []) if (each.when) conditions.set(each.id, each.when);
    for (const field of this.#fields) {
      const when = conditions.get(field.name);
      const source = when && this.#fields.find((each) => each.name === when.question_id);
      if (!source) continue; // no condition, or its answer is recorded
      const value = source.element.hidden ? null : (source.read([]) ?? null);
      field.element.hidden = JSON.stringify(value) !== JSON.stringify(when.equals);
    }
  }

  /** Permission for a call, or for a result. */
  #approval(schema) {
    const { details } = this;
    const properties = schema.properties;
    const subject = element("section", { ariaLabel: "Subject" });
    if (details.content !== undefined) subject.append(element("pre", { dir: "auto" }, shown(details.content)));
    else if (details.kind === "run") subject.append(members(details.arguments));
    const editor = properties.editedArgs ? this.#argumentsEditor(properties.editedArgs, schema) : this.#contentEditor(properties);
    const reason = optional(schema, "reason", "Reason");
    const remember = optional(schema, "remember");
    const besides = () => readFields([reason, remember].filter(Boolean), []);
    const decide = (approved) => () => {
      const problems = [];
      const edited = approved ? (editor?.read(problems) ?? {}) : {};
      this.showProblems(problems);
      if (!problems.length) this.#submit(resolved({ approved, ...edited, ...besides() }));
    };
    const back = properties.back && button("Back", () => this.#submit(resolved({ back: true })));
    return [
      subject,
      editor?.element,
      reason?.element,
      remember?.element,
      this.#problem,
      buttons(back, button("Deny", decide(false)), button("Approve", decide(true), "primary")),
      ...this.#more(null),
    ].filter(Boolean);
  }

  #argumentsEditor(given, root) {
    const schema = plain(given, root);
    const pointer = "/editedArgs";
    const original = this.details.arguments ?? {};
    const isKnown = Object.keys(schema.properties ?? {}).length > 0;
    const whole = isKnown ? null : createField(schema, { root, pointer, label: "Arguments", value: original });
    const fields = whole ? [whole] : createFields(schema, { root, pointer, values: original });
    this.#fields = fields;
    const element_ = fold("Edit the arguments", ...fields.map((each) => each.element));
    return {
      element: element_,
      read(problems) {
        if (!element_.open) return {};
        const values = whole ? whole.read(problems) : readFields(fields, problems);
        const others = Object.entries(original).filter(([name]) => !whole && !schema.properties[name]);
        return { editedArgs: { ...Object.fromEntries(others), ...values } };
      },
    };
  }

  #contentEditor(properties) {
    if (!properties.editedContent) return null;
    const field = createField({ type: "string" }, {
      root: {}, pointer: "/editedContent", label: "Result", value: this.details.content ?? "",
    });
    const element_ = fold("Edit the result", field.element);
    this.#fields = [field];
    return { element: element_, read: (problems) => (element_.open ? { editedContent: field.read(problems) ?? "" } : {}) };
  }

  /** A reason, a reply instead of an answer, and the end of the turn. */
  #more(reason) {
    const parts = reason ? [fold("Add a reason", reason.element)] : [];
    if (this.details.kind === "tool" || this.details.kind === "review") {
      const reply = createField({ type: "string" }, { root: {}, pointer: "/reply", label: "Reply", isRequired: false });
      const send = () => this.#submit(withMetadata({ reply: reply.read([]) ?? "" }));
      const hint = element("p", { className: "hint" }, "Tell the agent something. The question stays unanswered.");
      parts.push(fold("Reply without answering", hint, reply.element, buttons(button("Send reply", send))));
    }
    const stop = () => this.#submit(withMetadata({ endTurn: true }));
    parts.push(fold("Stop the agent", element("p", {}, "The turn ends. No more calls or questions."), buttons(button("Stop", stop, "danger"))));
    return [element("div", { className: "more" }, ...parts)];
  }

  #submit(entry) {
    this.showProblems([]);
    this.setBusy(true);
    this.isSent = true;
    this.#send(entry);
  }
}

function titleOf(interrupt, details) {
  return details.form === undefined ? (details.question?.text ?? interrupt.message ?? "") : "Please answer these questions";
}

function asks({ kind }) {
  return { run: " wants to run", deliver: " has a result", review: " has your answers" }[kind] ?? " asks";
}

function optional(schema, name, label) {
  const property = schema.properties[name];
  if (!property) return null;
  const field = property.type === "boolean" ? check(property, name) : createField(property, {
    root: schema, pointer: `/${name}`, label, isRequired: false,
  });
  return { ...field, name };
}

function check(property, name) {
  const control = element("input", { type: "checkbox", name: `/${name}`, value: "yes" });
  const label = element("label", { className: "check" }, control, element("span", {}, property.title ?? name));
  return { pointer: `/${name}`, element: label, showProblem() {}, focus: () => control.focus(), read: () => control.checked || undefined };
}

function button(label, action, className = "") {
  return element("button", { type: action ? "button" : "submit", className, onclick: action }, label);
}

const buttons = (...all) => element("div", { className: "buttons" }, ...all.filter(Boolean));
const fold = (label, ...content) => element("details", {}, element("summary", {}, label), element("div", { className: "body" }, ...content));

function duration(seconds) {
  const parts = [[86_400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  let rest = seconds;
  const texts = [];
  for (const [size, unit] of parts) {
    const number = Math.floor(rest / size);
    rest -= number * size;
    if (number) texts.push(`${number} ${unit}`);
  }
  return texts.slice(0, 2).join(" ");
}
