// Service worker: shows push notifications, sends their button presses, and replaces the page while the server is unreachable.
"use strict";

const OFFLINE = `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><meta http-equiv="refresh" content="10"><title>Offline · midturn</title></head>
<body><h1>The server cannot be reached</h1><p>Nothing is lost. This page tries again every ten seconds.</p></body></html>`;
const HEADERS = { "Content-Type": "text/html; charset=utf-8", "Content-Security-Policy": "default-src 'none'", "Cache-Control": "no-store" };

addEventListener("install", () => skipWaiting());

// Nothing is cached. Without a connection, every page is OFFLINE.
addEventListener("fetch", (event) => {
  const { request } = event;
  if (request.mode !== "navigate" || request.method !== "GET") return;
  event.respondWith(fetch(request).catch(() => new Response(OFFLINE, { status: 503, headers: HEADERS })));
});

addEventListener("push", (event) => event.waitUntil(show(event.data.json())));

function show({ title, body, tag, url, actions = [], silent = false }) {
  return registration.showNotification(title, { body, tag, actions, silent, renotify: !silent, data: { url } });
}

addEventListener("notificationclick", (event) => {
  const { notification, action } = event;
  notification.close();
  event.waitUntil(action ? press(notification, action) : open(notification.data.url));
});

function post(path, body) {
  const headers = { "Content-Type": "application/json" };
  return fetch(new URL(path, registration.scope), { method: "POST", body: JSON.stringify(body), headers }).catch(() => null);
}

// A button works once. A new notification shows why a press failed.
async function press({ title, tag, data }, token) {
  const response = await post("api/push/press", { token });
  if (response?.ok) return null;
  const unknown = "The server cannot be reached. Your answer may not have been saved. Open the page to check.";
  const said = response && (await response.json().catch(() => null))?.message;
  return show({ title, body: said ?? unknown, tag, url: data.url, silent: true });
}

async function open(url) {
  const wanted = new URL(url, registration.scope).href;
  for (const page of await clients.matchAll({ type: "window", includeUncontrolled: true }))
    if (page.url === wanted) return page.focus();
  return clients.openWindow(wanted);
}

addEventListener("pushsubscriptionchange", (event) => event.waitUntil(renew(event)));

async function renew({ oldSubscription, newSubscription }) {
  const subscription = newSubscription ?? (oldSubscription && (await registration.pushManager.subscribe(oldSubscription.options)));
  if (oldSubscription) await post("api/push", { forget: oldSubscription.endpoint });
  if (subscription) await post("api/push", { subscription: subscription.toJSON() });
}
