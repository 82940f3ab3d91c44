// Runs `HttpAgent` of @ag-ui/client. Reads one JSON command per line, and prints one JSON result per line.
// Arguments: a folder with node_modules, and the URL of the server.
const { createRequire } = require("node:module");
const readline = require("node:readline");

const { HttpAgent } = createRequire(`${process.argv[2]}/client.js`)("@ag-ui/client");
const url = process.argv[3];
const start = (threadId) => new HttpAgent({ url, threadId, headers: { "x-user": "ada" } });

async function main() {
  let agent = start("t1");
  let count = 0;
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const command = JSON.parse(line);
    if (command.thread) agent = start(command.thread); // as after a reload
    if (command.say) agent.addMessage({ id: `user-${++count}`, role: "user", content: command.say });
    const events = [];
    let error = null;
    try {
      await agent.runAgent(
        { resume: command.resume, forwardedProps: command.forwardedProps },
        { onEvent: ({ event }) => void events.push(event) },
      );
    } catch (failure) {
      error = String(failure);
    }
    const { messages, pendingInterrupts } = agent;
    console.log(JSON.stringify({ events, error, messages, pendingInterrupts }));
  }
}

main();
