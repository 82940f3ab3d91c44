// What the page gains where scripts run: it changes when something is asked or answered, options can be searched, and it can call.
"use strict";

const keyName = `midturn${document.body.dataset.base}:key`;

// Every request of the script. Where the page shares its name with other servers of the machine, a key opens it, which only the script has.
function ask(path, options = {}) {
  const key = localStorage.getItem(keyName);
  return fetch(path, { ...options, headers: { ...options.headers, ...(key && { "X-Midturn-Key": key }) } });
}

// An empty page, which the cookie alone opens: it takes its key, or fills itself with what is here.
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
  const said = document.querySelector("[data-said]");
  const openQuestion = document.body.dataset.openQuestion;
  const kinds = ["asked", "answered", "withdrawn", "turn_ended"];
  const key = (name) => `midturn${base}:${name}`;

  // How many wait -------------------------------------------------------------------------------------------------------

  const heading = list && document.querySelector("h1");
  const pages = () => list.querySelector("[data-total]"); // where not all of them are on this page
  function count() {
    if (!list) return;
    const shown = list.querySelectorAll("[data-question]").length;
    const waiting = pages()?.dataset.total ?? (shown ? `${shown}` : "");
    const badge = document.querySelector("[data-count]");
    badge.textContent = waiting;
    badge.hidden = !waiting;
    document.title = `${waiting ? `(${waiting}) ` : ""}Inbox · midturn`;
    heading.textContent = waiting ? `${waiting} ${waiting === "1" ? "question waits" : "questions wait"}` : "Nothing waits for you";
  }

  // The list ----------------------------------------------------------------------------------------------------------------

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
    if (!list) return;
    const number = new URLSearchParams(location.search).get("page") ?? "";
    const fresh = await part(`part=list&page=${encodeURIComponent(number)}`);
    if (fresh) keepingFocus(() => list.replaceChildren(...fresh.childNodes));
    count();
  }

  let reloading = null;
  function reloadSoon() {
    reloading ??= setTimeout(() => { reloading = null; Promise.allSettled([reload()]); }, 300); // a server that is gone is heard of by who listens
  }

  async function showGroup(conversation) {
    if (pages()) return reloadSoon();
    const fresh = await part(`part=group&conversation=${encodeURIComponent(conversation)}`);
    const group = fresh?.querySelector("section");
    const old = list.querySelector(`[data-conversation="${CSS.escape(conversation)}"]`);
    keepingFocus(() => {
      if (!group) old?.remove();
      else if (old) old.replaceWith(group);
      else list.append(group);
      if (list.querySelector("section")) list.querySelector(".nothing")?.remove();
    });
    count();
  }

  function removeQuestion(id) {
    if (pages()) reloadSoon();
    const item = list.querySelector(`[data-question="${CSS.escape(id)}"]`);
    if (!item) return "";
    const text = item.querySelector(".asks").textContent;
    const group = item.closest("section");
    const next = item.nextElementSibling ?? item.previousElementSibling ?? group.nextElementSibling;
    const hadFocus = item.contains(document.activeElement);
    item.remove();
    if (!group.querySelector("[data-question]")) group.remove();
    if (hadFocus) (next?.querySelector("a.item") ?? document.getElementById("main")).focus();
    if (!list.querySelector("section")) reload();
    count();
    return text;
  }

  // What happens ------------------------------------------------------------------------------------------------------------

  const handlers = {
    asked(data) {
      if (list) showGroup(data.conversation);
      call(data);
    },
    answered(data) {
      const by = data.answered_by?.user ?? data.answered_by?.model ?? data.answered_by?.via ?? "somebody";
      if (list) {
        const text = removeQuestion(data.id);
        if (text) said.textContent = `“${text}” was answered by ${by}.`;
      }
      if (data.id === openQuestion) closeQuestion();
    },
    withdrawn(data) {
      if (list) removeQuestion(data.id);
      if (data.id === openQuestion) closeQuestion();
    },
    turn_ended(data) {
      if (data.conversation === shownConversation) showTimeline();
      if (list?.querySelector(`[data-conversation="${CSS.escape(data.conversation)}"]`)) showGroup(data.conversation); // it was removed
    },
  };

  // A conversation that goes on while one reads it

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
    setInterval(() => { if (!document.hidden) showTimeline(); }, 2000);

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

  // Sending an answer: a server that goes away meanwhile takes nothing along ---------------------------------------------------

  const lost = document.querySelector("[data-lost]");

  function tell(text) {
    lost.hidden = !text;
    lost.firstElementChild.textContent = text;
  }

  const hasKey = () => localStorage.getItem(keyName) !== null;
  if (openQuestion || hasKey()) addEventListener("submit", async (event) => {
    const form = event.target;
    const to = form.getAttribute("action") ?? location.pathname;
    if (form.method !== "post" || to.endsWith("/enter") || (to !== location.pathname && !hasKey())) return;
    event.preventDefault();
    if (sending) return;
    sending = true;
    const body = new URLSearchParams(new FormData(form));
    if (event.submitter?.name) body.append(event.submitter.name, event.submitter.value);
    tell("");
    try {
      await received(await ask(to, { method: "POST", body, headers: { Accept: "text/html" } }));
    } catch {
      tell("The server cannot be reached. What you typed is still here, but it may not have arrived. This page finds out as soon as the server is back.");
      await whatBecameOfIt();
    } finally {
      sending = false;
    }
  });

  async function received(response) {
    if (response.redirected) return location.assign(response.url);
    if (response.status === 401) return signedOut(true);
    const next = parsed(await response.text());
    const main = next.querySelector("main");
    if (!main) return tell(next.textContent);
    document.querySelector("main").replaceWith(document.importNode(main, true));
    dress();
    scrollTo(0, 0);
    (document.querySelector("main [autofocus]") ?? document.querySelector("main [aria-invalid]:not(fieldset)") ?? document.querySelector("main")).focus();
    said.textContent = document.querySelector("main h1")?.textContent ?? "";
  }

  async function whatBecameOfIt() {
    for (;;) {
      await new Promise((done) => { setTimeout(done, 1000); });
      const response = await ask(location.pathname, { headers: { Accept: "text/html" } }).catch(() => null);
      if (!response || response.status >= 500) continue;
      signedOut(response.status === 401); // a server that was started again knows nobody: once signed in, one learns what became of it
      if (response.status === 401) { tell(""); continue; }
      const closed = !parsed(await response.clone().text()).querySelector("form.answer, form.decide");
      tell(closed ? "" : "The server is back, and your answer was not recorded. What you typed is still here: send it again.");
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

  // Listening: one tab listens for all of them, since a browser opens few connections to one server ---------------------------

  const channel = "BroadcastChannel" in window ? new BroadcastChannel(key("changes")) : null;
  if (channel) channel.onmessage = ({ data: [kind, data] }) => (kind === "again" ? again(false) : handle(kind, data));

  function again(tell) {
    signedOut(false);
    Promise.allSettled([reload(), openQuestion && closeQuestion()]); // a server that is gone again is heard of by who listens
    if (tell) channel?.postMessage(["again"]);
  }

  async function listen() {
    let seen = null;
    for (;;) {
      const resuming = seen ? { "Last-Event-ID": seen } : {};
      const response = await ask(`${base}/api/events`, { headers: { Accept: "text/event-stream", ...resuming } }).catch(() => null);
      if (response?.ok) {
        again(true); // what happened between drawing the page and listening is told to nobody
        seen = await hear(response.body.pipeThrough(new TextDecoderStream()).getReader(), seen);
      } else signedOut(response?.status === 401);
      await new Promise((done) => { setTimeout(done, response?.ok ? 1000 : 2000 + Math.random() * 1000); });
    }
  }

  async function hear(reader, seen) {
    let text = "";
    for (;;) {
      const { done, value } = await reader.read().catch(() => ({ done: true }));
      if (done) return seen;
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

  // Calling -------------------------------------------------------------------------------------------------------------------

  const bell = document.querySelector("[data-bell]");
  const notify = document.querySelector("[data-notify]");
  let subscribed = false; // at a push service, which tells when the page is closed

  const isOn = (name) => localStorage.getItem(key(name)) === "on";
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
    return subscribed ? "Notifications: on" : "Notifications: while this page is open";
  }

  // Notifications while the page is closed: only where its address stays, so that the server offers them

  const pushKey = document.body.dataset.push;
  const worker = pushKey && "serviceWorker" in navigator ? navigator.serviceWorker.register(`${base}/worker.js`, { scope: `${base}/` }) : null;
  worker?.then(() => { if (isOn("notify")) subscribe(false); }, () => {}); // without it the page calls while it is open

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
    if (!list) return;
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

  function offset(moment) { // of this browser's zone at that time
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
        return `${number} ${name}${number > 1 ? "s" : ""}`;
      }
    return "a moment";
  }
  setInterval(() => {
    for (const time of document.querySelectorAll("time[datetime]")) {
      const since = (Date.now() - Date.parse(time.dateTime)) / 1000;
      if (Number.isFinite(since) && !time.hasAttribute("data-fixed")) time.textContent = lasted(since);
    }
  }, 20000);
}

if ("shell" in document.body.dataset) fill();
else start();
