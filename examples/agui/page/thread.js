// A thread of the agent: sends runs one after the other, and follows the changes of the thread's questions.

import { HttpAgent } from "@ag-ui/client";

const MAX_DELAY = 10_000;
const sleep = (milliseconds) => new Promise((resolve) => { setTimeout(resolve, milliseconds); });
const REFRESH = { status: "cancelled", metadata: { midturn: { refresh: true } } };

export class Thread {
  #agent;
  #url;
  #handler;
  #tail = Promise.resolve();
  #running = false;
  #isOver = true;
  #refreshes = false;
  #asked = new Set(); // questions that were asked while a run was on
  #answering = new Set();
  #wake = () => {};

  /**
   * @param url - URL of the agent, with a slash at its end.
   * @param id - ID of the thread.
   * @param handler - Called with changes: `messages(list)`, `questions(interrupts)`, `rejected(value)` for an answer or a message
   * that was not taken, `closed(address, {answeredBy})` for a question that was answered or closed elsewhere, `failed(message,
   * canRetry)`, `state({isRunning, isLost})`.
   */
  constructor(url, id, handler) {
    this.#url = url;
    this.#handler = handler;
    this.#agent = new HttpAgent({ url, threadId: id });
  }

  /** Show the thread, and continue its turn if it is open. */
  start() {
    this.#watch();
    return this.refresh();
  }

  /** Send a message of the user. */
  say(content) {
    return this.#enqueue(() => {
      this.#agent.addMessage({ id: crypto.randomUUID(), role: "user", content });
      this.#handler.messages(this.#agent.messages);
      return this.#run();
    });
  }

  /** Send an answer. The other open questions are not decided by it. */
  answer(id, entry) {
    return this.#enqueue(async () => {
      if (!this.#agent.pendingInterrupts.some((each) => each.id === id)) return; // it was closed in the meantime
      const address = addressOf(this.#agent.pendingInterrupts.find((each) => each.id === id));
      this.#answering.add(address);
      try {
        await this.#run({ [id]: entry });
      } finally {
        this.#answering.delete(address);
      }
    });
  }

  /** Fetch the current state. */
  refresh() {
    if (this.#refreshes) return this.#tail;
    this.#refreshes = true;
    return this.#enqueue(() => {
      this.#refreshes = false;
      return this.#run();
    });
  }

  #enqueue(work) {
    this.#tail = this.#tail.then(work).catch((error) => this.#handler.failed(String(error.message ?? error), true));
    return this.#tail;
  }

  /** Send a run until its end arrives. The same ID makes a second attempt safe: nothing is started twice. */
  async #run(entries = {}) {
    const runId = crypto.randomUUID();
    this.#running = true;
    this.#handler.state({ isRunning: true });
    try {
      for (let attempt = 0; ; attempt += 1) {
        // a client must send an entry for each interrupt
        const resume = this.#agent.pendingInterrupts.map((each) => ({
          interruptId: each.id, ...this.#entryFor(each, entries[each.id]),
        }));
        if (await this.#attempt({ runId, ...(resume.length ? { resume } : {}) })) break;
        this.#handler.state({ isLost: true });
        await Promise.race([sleep(Math.min(500 * 2 ** attempt, MAX_DELAY)), new Promise((resolve) => { this.#wake = resolve; })]);
      }
    } finally {
      this.#running = false;
      this.#handler.state({ isRunning: false });
    }
    const known = new Set(this.#agent.pendingInterrupts.map(addressOf));
    const isBehind = [...this.#asked].some((address) => !known.has(address));
    this.#asked.clear();
    if (isBehind) this.refresh();
  }

  /** Return the entry for an interrupt. The client library refuses an answer after the deadline. */
  #entryFor(interrupt, entry) {
    if (entry?.status !== "resolved" || !isExpired(interrupt)) return entry ?? REFRESH;
    this.#handler.rejected({ interruptId: interrupt.id, why: "expired" });
    return REFRESH;
  }

  /** Return whether the end of the run arrived. Without it, the connection was lost. */
  async #attempt(parameters) {
    let hasEnded = false;
    const subscriber = {
      onMessagesChanged: ({ messages }) => this.#handler.messages(messages),
      onEvent: () => this.#handler.state({ isLost: false }),
      onCustomEvent: ({ event }) => {
        if (event.name === "midturn.not_taken") this.#handler.rejected(event.value);
      },
      onRunFinishedEvent: ({ outcome, interrupts }) => {
        hasEnded = true;
        this.#isOver = outcome !== "interrupt";
        this.#handler.questions(interrupts ?? []);
      },
      onRunErrorEvent: ({ event }) => {
        hasEnded = true;
        this.#isOver = event.code === "failed";
        if (this.#isOver) this.#agent.pendingInterrupts = []; // the client keeps them, but the turn is over
        if (this.#isOver) this.#handler.questions([]);
        if (event.code !== "open") this.#handler.failed(event.message, !this.#isOver);
      },
    };
    try {
      await this.#agent.runAgent(parameters, subscriber);
    } catch (error) {
      const isLost = error instanceof TypeError || error.status >= 500; // fetch reports a lost connection as TypeError
      if (!hasEnded && !isLost) throw refusal(error);
    }
    return hasEnded;
  }

  /** Follow the thread's events. Between runs they are the only way to notice an answer in another interface. */
  #watch(wasLost = false) {
    const changes = new EventSource(`${this.#url}threads/${encodeURIComponent(this.#agent.threadId)}/events`);
    changes.addEventListener("open", () => {
      this.#wake();
      if (wasLost && !this.#running) this.refresh();
      wasLost = false;
    });
    changes.addEventListener("error", () => {
      wasLost = true;
      if (changes.readyState !== EventSource.CLOSED) return; // the browser connects again by itself
      setTimeout(() => this.#watch(wasLost), MAX_DELAY);
    });
    for (const kind of ["asked", "changed"]) {
      changes.addEventListener(kind, ({ data }) => this.#noticeAsked(JSON.parse(data), kind));
    }
    for (const kind of ["answered", "withdrawn"]) {
      changes.addEventListener(kind, ({ data }) => this.#noticeClosed(JSON.parse(data)));
    }
    changes.addEventListener("turn_ended", () => { if (!this.#running && !this.#isOver) this.refresh(); });
  }

  #noticeAsked({ id }, kind) {
    if (this.#running) this.#asked.add(id);
    else if (kind === "changed" || !this.#agent.pendingInterrupts.some((each) => addressOf(each) === id)) this.refresh();
  }

  #noticeClosed({ id, answered_by: answeredBy }) {
    this.#asked.delete(id);
    if (this.#answering.has(id)) return; // our own answer; if another one was faster, the run reports it
    if (!this.#agent.pendingInterrupts.some((each) => addressOf(each) === id)) return;
    this.#handler.closed(id, { answeredBy });
    this.refresh();
  }
}

/** Return the address of an interrupt's question, which the events contain. */
export const addressOf = (interrupt) => interrupt.metadata?.midturn?.address ?? interrupt.id;

export const isExpired = ({ expiresAt }) => expiresAt !== undefined && Date.parse(expiresAt) <= Date.now();

function refusal(error) {
  if (error.status === 401) return new Error("You are not signed in. Open the address that the server has printed.");
  return error.status ? new Error(error.payload?.message ?? `The server refused the request (${error.status}).`) : error;
}
