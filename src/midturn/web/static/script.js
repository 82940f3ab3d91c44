// Scripts of the page: live updates, search in options, keyboard shortcuts, drafts, sound and notifications.
"use strict";

const keyName = `midturn${document.body.dataset.base}:key`;

// All requests from the script. If other servers share the host name, the requests need a key that only the script has.
function ask(path, options = {}) {
  const key = localStorage.getItem(keyName);
  return fetch(path, { ...options, headers: { ...options.headers, ...(key && { "X-Midturn-Key": key }) } });
}

// For the empty page that the cookie alone opens: stores the key, or loads the requested page with the stored key.
async function fill() {
  const { key, to } = document.body.dataset;
  if (key) {
    localStorage.setItem(keyName, key);
    return location.replace(to);
  }
  const known = localStorage.getItem(keyName) ?? "";
  const response = await fetch(location.href, { headers: { Accept: "text/html", "X-Midturn-Key": known } }).catch(() => null);
  if (!response) return setTimeout(fill, 2000);
  const next = new DOMParser().parseFromString(await response.text(), "text/html");
  document.title = next.title;
  document.body.replaceWith(document.importNode(next.body, true));
  if (document.querySelector("[data-list], main[tabindex]")) start();
}

function start() {
  const base = document.body.dataset.base;
  const list = document.querySelector("[data-list]");
  const side = document.querySelector("[data-side]"); // the list next to a question, on wide screens
  const narrow = side && !matchMedia("(min-width: 75rem)").matches;
  const isShown = list && !narrow;
  const filter = new URLSearchParams(side ? "" : location.search);
  const said = document.querySelector("[data-said]");
  const openQuestion = document.body.dataset.openQuestion;
  const kinds = ["asked", "changed", "answered", "withdrawn", "turn_ended"];
  const key = (name) => `midturn${base}:${name}`;

  // Number of open questions -------------------------------------------------------------------------------------------------------

  const heading = list && !side && document.querySelector("h1");
  const pages = () => list.querySelector("[data-total]"); // set if the list has several pages
  function count() {
    if (!isShown) return countSoon();
    const shown = list.querySelectorAll("[data-question]").length;
    showCount(pages()?.dataset.total ?? (shown ? `${shown}` : ""));
  }

  const title = document.title.replace(/^\([^)]*\) /, "");
  function showCount(waiting) {
    const badge = document.querySelector("[data-count]");
    if (!badge) return;
    badge.textContent = waiting;
    badge.hidden = !waiting;
    document.title = `${waiting ? `(${waiting}) ` : ""}${title}`;
    if (heading) heading.textContent = waiting ? `Inbox · ${waiting} waiting` : "You're all caught up";
    if (pushKey && navigator.setAppBadge) navigator.setAppBadge(Number.parseInt(waiting || "0", 10)).catch(() => {}); // not all platforms support a badge
  }

  let counting = null;
  function countSoon() {
    counting ??= setTimeout(async () => {
      counting = null;
      const response = await ask(`${base}/?part=count`).catch(() => null);
      if (response?.ok) showCount(await response.text());
    }, 300);
  }

  // The list ----------------------------------------------------------------------------------------------------------------

  // Updates a part of the page. If the server is unreachable, the part stays unchanged: the event stream reports the lost connection.
  const update = (...work) => Promise.allSettled(work);

  const parsed = (html) => new DOMParser().parseFromString(html, "text/html").body;

  async function part(query) {
    const response = await ask(`${base}/?${query}`, { headers: { Accept: "text/html" } });
    if (response.status === 401) return signedOut(true);
    return response.ok ? parsed(await response.text()) : null;
  }

  function keepingFocus(change) {
    const focused = document.activeElement?.closest?.("[data-question]")?.dataset.question;
    change();
    if (focused && !document.activeElement?.closest?.("[data-question]"))
      list.querySelector(`[data-question="${CSS.escape(focused)}"] a`)?.focus();
  }

  async function reload() {
    if (!isShown) return countSoon();
    const query = new URLSearchParams(filter);
    query.delete("done");
    query.set("part", "list");
    const fresh = await part(query);
    if (fresh) keepingFocus(() => { list.replaceChildren(...fresh.childNodes); mark(); });
    count();
  }

  // Marks the question that is shown next to the list.
  function mark() {
    if (!side) return;
    for (const form of list.querySelectorAll("[data-quick]")) form.remove(); // on the page of a question, only that question can be answered
    for (const item of list.querySelectorAll("[data-question]")) {
      const link = item.querySelector("a.item");
      if (item.dataset.question === openQuestion) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
    list.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" });
  }

  let reloading = null;
  function reloadSoon() {
    reloading ??= setTimeout(() => { reloading = null; update(reload()); }, 300);
  }

  async function showGroup(conversation) {
    if (!isShown) return countSoon();
    if (pages()) return reloadSoon();
    const fresh = await part(`part=group&conversation=${encodeURIComponent(conversation)}`);
    const group = fresh?.querySelector("section");
    const old = list.querySelector(`[data-conversation="${CSS.escape(conversation)}"]`);
    keepingFocus(() => {
      if (!group) old?.remove();
      else if (old) old.replaceWith(group);
      else list.append(group);
      if (list.querySelector("section")) list.querySelector(".nothing")?.remove();
      mark();
    });
    count();
  }

  function removeQuestion(id) {
    if (!isShown) {
      countSoon();
      return "";
    }
    if (pages()) reloadSoon();
    const item = list.querySelector(`[data-question="${CSS.escape(id)}"]`);
    if (!item) return "";
    const text = item.querySelector(".asks").textContent;
    const group = item.closest("section");
    const next = item.nextElementSibling ?? item.previousElementSibling ?? group.nextElementSibling;
    const hadFocus = item.contains(document.activeElement);
    item.remove();
    if (!group.querySelector("[data-question]")) group.remove();
    mark();
    if (hadFocus) (next?.querySelector("a.item") ?? document.getElementById("main")).focus();
    if (!list.querySelector("section")) update(reload());
    count();
    return text;
  }

  // Events ------------------------------------------------------------------------------------------------------------

  const handlers = {
    asked(data) {
      update(showGroup(data.conversation));
      call(data);
    },
    changed(data) { // a vote, an edit or a reassignment
      update(showGroup(data.conversation));
      if (data.id === openQuestion && !sending) said.textContent = "This question has changed. Reload the page to see the new version.";
    },
    answered(data) {
      const by = data.answered_by?.user ?? data.answered_by?.model ?? data.answered_by?.via ?? "somebody";
      const text = removeQuestion(data.id);
      if (text) said.textContent = `“${text}” was answered by ${by}.`;
      if (data.id === openQuestion) update(closeQuestion());
    },
    withdrawn(data) {
      removeQuestion(data.id);
      if (data.id === openQuestion) update(closeQuestion());
    },
    turn_ended(data) {
      if (data.conversation === shownConversation) update(showTimeline());
      if (isShown && list.querySelector(`[data-conversation="${CSS.escape(data.conversation)}"]`)) update(showGroup(data.conversation)); // the conversation may have been removed
    },
  };

  // Live timeline of an open conversation

  const shownConversation = document.body.dataset.conversationPage;
  const place = document.querySelector("[data-timeline]");
  async function showTimeline() {
    const query = new URLSearchParams(location.search);
    query.set("part", "timeline");
    const response = await ask(`${base}/c/${encodeURIComponent(shownConversation)}?${query}`, { headers: { Accept: "text/html" } });
    if (!response.ok) return;
    const html = await response.text();
    if (html === showTimeline.last) return;
    showTimeline.last = html;
    const opened = new Set([...place.querySelectorAll("details[open]")].map((one) => one.closest("li").id));
    place.replaceChildren(...parsed(html).childNodes);
    for (const one of place.querySelectorAll("details")) one.open = opened.has(one.closest("li")?.id);
  }
  if (place && "live" in document.body.dataset)
    setInterval(() => { if (!document.hidden) update(showTimeline()); }, 2000);

  let sending = false;

  async function closeQuestion() {
    if (sending) return;
    const response = await ask(`${base}/q/${encodeURIComponent(openQuestion)}`, { headers: { Accept: "text/html" } });
    if (!response.ok && response.status !== 404) return;
    const done = parsed(await response.text()).querySelector(".done");
    const place = document.querySelector("[data-closed]");
    if (!done || !place || place.childElementCount) return;
    place.replaceChildren(document.importNode(done, true));
    for (const button of document.querySelectorAll("main button")) button.disabled = true;
    for (const field of document.querySelectorAll("main textarea, main input")) field.readOnly = true;
    said.textContent = done.textContent;
    place.scrollIntoView({ block: "center" });
  }

  // Sending an answer. If the connection is lost, the input stays on the page ---------------------------------------------------

  const lost = document.querySelector("[data-lost]");
  const again_ = lost.querySelector("[data-again]");
  let kept = null; // an answer that may not have reached the server; sent again only if the user asks for it

  function tell(text) {
    lost.hidden = !text;
    lost.querySelector("[role]").textContent = text;
    again_.hidden = !text || !kept;
  }
  again_.addEventListener("click", () => { if (kept) send(kept.to, kept.body); });

  const hasKey = () => localStorage.getItem(keyName) !== null;
  if (openQuestion || hasKey()) addEventListener("submit", async (event) => {
    const form = event.target;
    const to = form.getAttribute("action") ?? location.pathname;
    if (form.method !== "post" || to.endsWith("/enter") || (to !== location.pathname && !hasKey())) return;
    event.preventDefault();
    const body = new URLSearchParams(new FormData(form));
    if (event.submitter?.name) body.append(event.submitter.name, event.submitter.value);
    send(to, body);
  });

  async function send(to, body) {
    if (sending) return;
    sending = true;
    kept = null;
    tell("");
    try {
      await received(await ask(to, { method: "POST", body, headers: { Accept: "text/html" } }));
    } catch {
      tell("Connection lost. Your answer may not have been saved. We'll check as soon as you're back online.");
      await whatBecameOfIt(to, body);
    } finally {
      sending = false;
    }
  }

  async function received(response) {
    if (response.redirected) {
      forgetDraft();
      return location.assign(response.url);
    }
    if (response.status === 401) return signedOut(true);
    const next = parsed(await response.text());
    const main = next.querySelector("main");
    if (!main) return tell(next.textContent);
    const shown = document.importNode(main, true);
    const place = side?.scrollTop;
    if (side) shown.querySelector("[data-side]")?.replaceWith(side); // keep the list and its scroll position
    document.querySelector("main").replaceWith(shown);
    if (side) side.scrollTop = place;
    dress();
    scrollTo(0, 0);
    (document.querySelector("main [autofocus]") ?? document.querySelector("main [aria-invalid]:not(fieldset)") ?? document.querySelector("main")).focus();
    said.textContent = document.querySelector("main h1")?.textContent ?? "";
  }

  async function whatBecameOfIt(to, body) {
    for (;;) {
      await new Promise((done) => { setTimeout(done, 1000); });
      const response = await ask(location.pathname, { headers: { Accept: "text/html" } }).catch(() => null);
      if (!response || response.status >= 500) continue;
      signedOut(response.status === 401); // after a server restart, the user has to sign in again
      if (response.status === 401) { tell(""); continue; }
      const closed = !parsed(await response.clone().text()).querySelector("form.answer, form.decide");
      kept = closed || body.has("secret") ? null : { to, body };
      tell(closed ? "" : "You're back online. Your answer wasn't saved. Send it again?");
      if (closed) await received(response);
      return;
    }
  }

  addEventListener("click", async (event) => {
    const link = event.target.closest?.("a[download]");
    if (!link || !hasKey() || link.href.startsWith("blob:")) return;
    event.preventDefault();
    const response = await ask(link.href).catch(() => null);
    if (!response?.ok) return signedOut(response?.status === 401);
    const name = /filename="?([^";]+)/.exec(response.headers.get("Content-Disposition") ?? "")?.[1] ?? "";
    const file = Object.assign(document.createElement("a"), { href: URL.createObjectURL(await response.blob()), download: name });
    file.click();
    URL.revokeObjectURL(file.href);
  });

  function handle(kind, data) {
    handlers[kind]?.(data);
    document.dispatchEvent(new CustomEvent(`midturn:${kind}`, { detail: data }));
  }

  // Event stream: one tab listens for all tabs, because browsers limit connections per server ---------------------------

  const channel = "BroadcastChannel" in window ? new BroadcastChannel(key("changes")) : null;
  if (channel) channel.onmessage = ({ data: [kind, data] }) => ({ again: () => again(false), offline: () => offline(data) }[kind] ?? (() => handle(kind, data)))();

  function again(tell) {
    signedOut(false);
    offline(null);
    update(reload(), openQuestion && closeQuestion());
    if (tell) channel?.postMessage(["again"]);
  }

  // Shows that the server is unreachable and the page may be out of date.
  function offline(since) {
    const line = document.querySelector("[data-offline]");
    if (!since === line.hidden) return;
    line.hidden = !since;
    document.body.classList.toggle("stale", Boolean(since));
    const time = since && new Date(since).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
    line.firstElementChild.textContent = since ? `Offline since ${time}. This page may be out of date.` : "";
  }

  const SILENCE = 40000; // milliseconds; the server sends a keepalive every 15 seconds
  async function listen() {
    let seen = document.body.dataset.seen || null; // start with the events since the page was rendered
    let known = Boolean(seen);
    let since = null;
    for (;;) {
      const resuming = seen ? { "Last-Event-ID": seen } : {};
      const silent = new AbortController();
      let timer = setTimeout(() => silent.abort(), SILENCE);
      const heard = () => {
        clearTimeout(timer);
        timer = setTimeout(() => silent.abort(), SILENCE);
      };
      const options = { headers: { Accept: "text/event-stream", ...resuming }, signal: silent.signal };
      const response = await ask(`${base}/api/events`, options).catch(() => null);
      if (response?.ok) {
        if (!known) again(true); // reload, because events were missed
        known = false;
        since = null;
        seen = await hear(response.body.pipeThrough(new TextDecoderStream()).getReader(), seen, heard);
        since = Date.now();
      } else {
        signedOut(response?.status === 401);
        if (!response) {
          since ??= Date.now();
          offline(since);
          channel?.postMessage(["offline", since]);
        }
      }
      clearTimeout(timer);
      await new Promise((done) => { setTimeout(done, response?.ok ? 1000 : 2000 + Math.random() * 1000); });
    }
  }

  async function hear(reader, seen, heard) {
    let text = "";
    for (;;) {
      const { done, value } = await reader.read().catch(() => ({ done: true }));
      if (done) return seen;
      heard();
      const events = (text + value).split("\n\n");
      text = events.pop();
      for (const event of events) {
        const field = (name) => event.split("\n").find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
        seen = field("id") ?? seen;
        if (!kinds.includes(field("event"))) continue;
        const data = JSON.parse(field("data"));
        handle(field("event"), data);
        channel?.postMessage([field("event"), data]);
      }
    }
  }

  function signedOut(isOut) {
    document.querySelector("[data-signed-out]").hidden = !isOut;
    return null;
  }

  if (navigator.locks && channel) navigator.locks.request(key("listening"), listen);
  else listen();

  // Sound and notifications -------------------------------------------------------------------------------------------------------------------

  const bell = document.querySelector("[data-bell]");
  const notify = document.querySelector("[data-notify]");
  let subscribed = false; // whether the browser has a push subscription

  const isOn = (name) => (localStorage.getItem(key(name)) ?? (name === "keys" ? "on" : "off")) === "on";
  function toggle(button, name, words, switched) {
    if (!button) return;
    const show = () => {
      button.setAttribute("aria-pressed", String(isOn(name)));
      button.textContent = words();
    };
    button.addEventListener("click", async () => {
      localStorage.setItem(key(name), (await switched(!isOn(name))) ? "on" : "off");
      show();
    });
    show();
  }
  toggle(bell, "bell", () => `Sound: ${isOn("bell") ? "on" : "off"}`, (on) => { if (on) ring(); return on; });
  if (notify && !("Notification" in window)) notify.hidden = true;
  else toggle(notify, "notify", notifications, async (on) => {
    const allowed = on && (await Notification.requestPermission()) === "granted";
    await (allowed ? subscribe(true) : unsubscribe());
    return allowed;
  });

  function notifications() {
    if (Notification.permission === "denied") return "Notifications: blocked by the browser";
    if (!isOn("notify") || Notification.permission !== "granted") return "Notifications: off";
    return subscribed ? "Notifications: on" : "Notifications: only while this tab is open";
  }

  // Push notifications, if the server offers them

  const pushKey = document.body.dataset.push;
  const worker = pushKey && "serviceWorker" in navigator ? navigator.serviceWorker.register(`${base}/worker.js`, { scope: `${base}/` }) : null;
  worker?.then(() => { if (isOn("notify")) subscribe(false); }, () => {}); // without a worker, notifications work only while the page is open

  async function subscribe(fresh) {
    const manager = await worker?.then((registration) => registration.pushManager).catch(() => null);
    const found = await manager?.getSubscription().catch(() => null);
    const options = { userVisibleOnly: true, applicationServerKey: pushKey };
    const subscription = found ?? (fresh ? await manager?.subscribe(options).catch(() => null) : null);
    subscribed = Boolean(subscription) && (await pushed({ subscription: subscription.toJSON() }));
    if (notify) notify.textContent = notifications();
  }

  async function unsubscribe() {
    const found = await worker?.then((registration) => registration.pushManager.getSubscription()).catch(() => null);
    if (found) await pushed({ forget: found.endpoint });
    await found?.unsubscribe();
    subscribed = false;
  }

  async function pushed(body) {
    const headers = { "Content-Type": "application/json" };
    const response = await ask(`${base}/api/push`, { method: "POST", body: JSON.stringify(body), headers }).catch(() => null);
    return Boolean(response?.ok);
  }

  const install = document.querySelector("[data-install]");
  const standalone = matchMedia("(display-mode: standalone)");
  if (install && pushKey) {
    const offer = (event) => { install.hidden = !event || standalone.matches; offered = event; };
    let offered = null;
    addEventListener("beforeinstallprompt", (event) => { event.preventDefault(); offer(event); });
    addEventListener("appinstalled", () => offer(null));
    install.addEventListener("click", async () => { await offered?.prompt(); offer(null); });
  }

  let sound = null;
  function ring() {
    sound ??= new AudioContext();
    const tone = sound.createOscillator();
    const volume = sound.createGain();
    tone.frequency.value = 660;
    volume.gain.setValueAtTime(0.12, sound.currentTime);
    volume.gain.exponentialRampToValueAtTime(0.0001, sound.currentTime + 0.5);
    tone.connect(volume).connect(sound.destination);
    tone.start();
    tone.stop(sound.currentTime + 0.5);
  }

  function call(data) {
    if (!list || side) return;
    if (isOn("bell")) ring();
    if (isOn("notify") && !subscribed && Notification.permission === "granted" && document.hidden) {
      const who = data.source.source === "assistant" ? "Assistant" : data.source.name ?? data.source.source;
      const shown = new Notification(`${who} asks`, { body: data.question.text, tag: data.id });
      shown.onclick = () => { focus(); location.assign(`${base}/q/${encodeURIComponent(data.id)}`); };
    }
  }

  // Options ---------------------------------------------------------------------------------------------------------------------

  function dress() {
    for (const element of document.querySelectorAll("[data-needs-script]")) element.hidden = false;
    const search = document.querySelector("[data-search]");
    search?.addEventListener("input", () => {
      const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      for (const option of document.querySelectorAll("[data-options] > .option")) {
        const text = option.textContent.toLowerCase();
        option.hidden = !option.classList.contains("own") && !option.querySelector(":checked") && !words.every((word) => text.includes(word));
      }
      document.querySelector("[data-none]").hidden = Boolean(document.querySelector("[data-options] > .option:not([hidden])"));
    });
    search?.addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault();
      document.querySelector("[data-options] > .option:not([hidden]) input")?.focus();
    });
    const shape = document.querySelector("[data-shape]");
    shape?.addEventListener("click", () => {
      const field = document.getElementById("answer");
      if (!field.value.trim()) field.value = field.placeholder;
      field.focus();
    });
    for (const zone of document.querySelectorAll("[data-zone]")) {
      const moment = zone.previousElementSibling;
      moment.addEventListener("change", () => { if (zone.value === "Z" && !zone.dataset.touched) zone.value = offset(moment.value); });
      zone.addEventListener("input", () => { zone.dataset.touched = ""; });
    }
    const other = document.querySelector("[data-other]");
    other?.addEventListener("input", () => {
      if (other.value) other.closest(".option").querySelector('input[name="answer"]').checked = true;
    });
  }
  dress();

  function offset(moment) { // the browser's UTC offset at that time
    const at = new Date(moment);
    const minutes = -(Number.isNaN(at.getTime()) ? new Date() : at).getTimezoneOffset();
    const two = (number) => String(number).padStart(2, "0");
    return minutes ? `${minutes < 0 ? "-" : "+"}${two(Math.floor(Math.abs(minutes) / 60))}:${two(Math.abs(minutes) % 60)}` : "Z";
  }

  // Times -----------------------------------------------------------------------------------------------------------------------

  const units = [["day", 86400], ["hour", 3600], ["minute", 60]];
  function lasted(seconds) {
    for (const [name, length] of units)
      if (seconds >= length * 0.75) {
        const number = Math.max(1, Math.round(seconds / length));
        return `${number} ${name}${number > 1 ? "s" : ""} ago`;
      }
    return "just now";
  }
  setInterval(() => {
    for (const time of document.querySelectorAll("time[data-since]")) {
      const since = (Date.now() - Date.parse(time.dateTime)) / 1000;
      if (Number.isFinite(since)) time.textContent = lasted(since);
    }
  }, 20000);

  // Quick answers in the list: ignored right after the list moved, and can be undone for a few seconds --------------------------------------------

  const QUIET = 300;
  const UNDO = 5000;
  function stir(element, name) { // marks the element until nothing changed for QUIET milliseconds
    clearTimeout(stir[name]);
    element.dataset[name] = "";
    stir[name] = setTimeout(() => { delete element.dataset[name]; }, QUIET);
  }
  if (list) {
    stir(list, "moved");
    new MutationObserver(() => stir(list, "moved")).observe(list, { childList: true, subtree: true });
  }
  list?.addEventListener("submit", (event) => {
    const form = event.target.closest("[data-quick]");
    if (!form) return;
    event.preventDefault();
    event.stopPropagation();
    if (event.submitter && !("moved" in list.dataset)) decide(form, event.submitter);
  });

  function decide(form, button) {
    const body = new URLSearchParams(new FormData(form));
    body.append(button.name, button.value);
    const words = button.firstChild.textContent;
    const buttons = [...form.childNodes];
    const line = Object.assign(document.createElement("span"), { textContent: `Answering ${words}…` });
    const undo = Object.assign(document.createElement("button"), { type: "button", textContent: "Undo" });
    const back = () => {
      clearTimeout(timer);
      removeEventListener("pagehide", now);
      form.replaceChildren(...buttons);
      button.focus();
    };
    const now = () => deliver(form, body, { words, back, timer, now });
    const timer = setTimeout(now, UNDO);
    addEventListener("pagehide", now); // leaving the page sends the answer immediately
    undo.addEventListener("click", back);
    form.replaceChildren(line, undo);
    said.textContent = line.textContent;
    undo.focus();
  }

  async function deliver(form, body, { words, back, timer, now }) {
    clearTimeout(timer);
    removeEventListener("pagehide", now);
    form.replaceChildren(`Sending ${words}…`);
    const to = form.getAttribute("action");
    const response = await ask(to, { method: "POST", body, headers: { Accept: "text/html" }, keepalive: true }).catch(() => null);
    if (response?.redirected) {
      said.textContent = `${words}: saved.`;
      return removeQuestion(form.closest("[data-question]")?.dataset.question ?? "");
    }
    if (response?.status === 401) signedOut(true);
    const why = response && parsed(await response.text()).querySelector("[role=alert]:not([hidden] *), .problem")?.textContent.trim();
    const text = response ? why || "Couldn't save your answer. Open the question for details." : "Connection lost. Your answer may not have been saved.";
    const repeat = Object.assign(document.createElement("button"), { type: "button", textContent: `Send ${words} again` });
    repeat.addEventListener("click", () => deliver(form, body, { words, back, timer, now }));
    form.replaceChildren(Object.assign(document.createElement("span"), { className: "problem", textContent: text }), ...(response ? [] : [repeat]));
    said.textContent = text;
  }

  // Keyboard shortcuts: j and k move, y and n answer, / searches. y and n are ignored while keys are being typed ----------------------

  stir(document.body, "pressed");
  const keysOff = () => localStorage.getItem(key("keys")) === "off";
  addEventListener("keydown", (event) => {
    const quiet = !("pressed" in document.body.dataset);
    stir(document.body, "pressed");
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || keysOff()) return;
    if (event.target.closest?.("input, textarea, select, [contenteditable]")) return;
    const moves = { j: 1, k: -1 }[event.key];
    if (moves) return step(moves, event);
    const search = event.key === "/" && document.querySelector("main input[type=search]");
    if (search) {
      event.preventDefault();
      return search.focus();
    }
    const place = document.activeElement?.closest?.("[data-question]") ?? (openQuestion && document.querySelector("article.question"));
    const wanted = { y: "[value=yes], [value=approve]", n: "[value=no], [value=refuse]" }[event.key];
    const button = wanted && place?.querySelector(`form button:is(${wanted})`);
    if (button && quiet) button.click();
  });

  function step(by, event) {
    const items = isShown ? [...list.querySelectorAll("a.item")] : [...document.querySelectorAll("main a.item")];
    if (!items.length) return;
    event.preventDefault();
    const focused = document.activeElement?.closest?.("li")?.querySelector("a.item");
    const at = items.indexOf(focused ?? list?.querySelector("[aria-current]"));
    items[at < 0 ? 0 : Math.min(items.length - 1, Math.max(0, at + by))].focus();
  }
  toggle(document.querySelector("[data-keys]"), "keys", () => `Keyboard shortcuts: ${keysOff() ? "off" : "on"}`, (on) => on);

  // Drafts: input survives a reload of the tab, except secrets ---------------------------------------------

  const draftKey = () => key(`draft:${openQuestion}:${document.querySelector("main .place")?.textContent ?? ""}`);
  const fields = () => [...document.querySelectorAll("main form :is(input, textarea, select)")].filter(
    (field) => field.name && !["hidden", "password", "search"].includes(field.type));
  const stateOf = (field) => (["checkbox", "radio"].includes(field.type) ? field.checked : field.value);
  const nameOf = (field) => `${field.name}\n${["checkbox", "radio"].includes(field.type) ? field.value : ""}`;

  function keepDraft() {
    const typed = Object.fromEntries(fields().map((field) => [nameOf(field), stateOf(field)]));
    sessionStorage.setItem(draftKey(), JSON.stringify(typed));
  }

  function forgetDraft() {
    if (openQuestion) sessionStorage.removeItem(draftKey());
  }

  function restoreDraft() {
    const typed = JSON.parse(sessionStorage.getItem(draftKey()) ?? "{}");
    for (const field of fields()) {
      const state = typed[nameOf(field)];
      if (state === undefined || state === stateOf(field)) continue;
      if (typeof state === "boolean") field.checked = state;
      else field.value = state;
      const around = field.closest("details");
      if (around) around.open = true;
    }
  }
  if (openQuestion) {
    if (!document.querySelector("#problems")) restoreDraft();
    addEventListener("input", (event) => { if (event.target.closest?.("main form")) keepDraft(); });
  }

  const shortTime = (at) => at.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  for (const time of document.querySelectorAll("time[data-deadline]")) {
    const at = new Date(time.dateTime);
    time.textContent = at.toDateString() === new Date().toDateString() ? shortTime(at) : `${at.toLocaleDateString()} ${shortTime(at)}`;
  }
  for (const time of document.querySelectorAll("time[title]")) time.title = new Date(time.dateTime).toLocaleString();
  if (side && isShown) {
    side.hidden = false;
    update(reload());
  }
}

if ("shell" in document.body.dataset) fill();
else start();
