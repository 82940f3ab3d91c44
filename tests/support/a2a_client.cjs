// Runs the client of @a2a-js/sdk. Reads one JSON command per line, and prints one JSON result per line.
// Arguments: a folder with node_modules, the URL of the server, and the version (1 or 0).
const { createRequire } = require("node:module");
const readline = require("node:readline");

const [, , folder, url, version] = process.argv;
const load = createRequire(`${folder}/client.js`);
const isNew = version === "1";
const send = globalThis.fetch;
let extensions = {};
globalThis.fetch = (address, options = {}) => {
  const headers = { ...Object.fromEntries(new Headers(options.headers)), "x-user": "ada", ...extensions };
  return send(address, { ...options, headers });
};

const { ClientFactory } = load("@a2a-js/sdk/client");
const { TaskState, Role } = load("@a2a-js/sdk");

const partOf = (part) => {
  const [[kind, value]] = Object.entries(part);
  if (isNew) return { content: { $case: kind, value }, metadata: undefined, filename: "", mediaType: "" };
  return { kind, [kind]: value };
};
const requestOf = ({ parts, taskId, contextId, messageId }) => {
  const message = { messageId, taskId, contextId, parts: parts.map(partOf) };
  if (!isNew) return { message: { kind: "message", role: "user", ...message } };
  const empty = { tenant: "", configuration: undefined, metadata: undefined };
  const rest = { metadata: undefined, extensions: [], referenceTaskIds: [], role: Role.ROLE_USER };
  return { ...empty, message: { ...rest, ...message, taskId: taskId ?? "", contextId: contextId ?? "" } };
};
const plainPart = (part) => (isNew ? { [part.content.$case]: part.content.value } : { [part.kind]: part[part.kind] });
const plainStatus = (status) => ({
  state: isNew ? TaskState[status.state].replace("TASK_STATE_", "").toLowerCase() : status.state.replace("-", "_"),
  parts: (status.message?.parts ?? []).map(plainPart),
});
const plainTask = (task) => ({
  id: task.id,
  contextId: task.contextId,
  ...plainStatus(task.status),
  answer: (task.artifacts ?? []).flatMap((artifact) => artifact.parts.map(plainPart)),
});
const plainUpdate = (update) => {
  const [kind, value] = isNew ? [update.payload.$case, update.payload.value] : [update.kind, update];
  if (kind === "task") return { task: plainTask(value) };
  if (value.artifact) return { artifact: value.artifact.parts.map(plainPart) };
  return { status: plainStatus(value.status) };
};

async function run(client, command) {
  switch (command.do) {
    case "send":
      return plainTask(await client.sendMessage(requestOf(command)));
    case "stream":
    case "subscribe": {
      const id = isNew ? { tenant: "", id: command.id } : { id: command.id };
      const stream = command.do === "stream" ? client.sendMessageStream(requestOf(command)) : client.resubscribeTask(id);
      const updates = [];
      for await (const update of stream) updates.push(plainUpdate(update));
      return updates;
    }
    case "get":
      return plainTask(await client.getTask(isNew ? { tenant: "", id: command.id } : { id: command.id }));
    case "cancel":
      return plainTask(await client.cancelTask(isNew ? { tenant: "", id: command.id } : { id: command.id }));
  }
}

async function main() {
  const client = await new ClientFactory().createFromUrl(url);
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const command = JSON.parse(line);
    extensions = command.extension ? { [isNew ? "A2A-Extensions" : "X-A2A-Extensions"]: command.extension } : {};
    try {
      console.log(JSON.stringify({ result: await run(client, command) }));
    } catch (error) {
      console.log(JSON.stringify({ error: `${error.name}: ${error.message}` }));
    }
  }
}

main();
