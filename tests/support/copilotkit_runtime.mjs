// The runtime of CopilotKit with one agent. Prints its port.
// Arguments: a folder with node_modules, and the URL of the agent.
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [folder, url] = process.argv.slice(2);
const { resolve } = createRequire(`${folder}/runtime.js`);
const load = (name) => import(pathToFileURL(resolve(name)).href);
const { CopilotRuntime, InMemoryAgentRunner } = await load("@copilotkit/runtime/v2");
const { createCopilotNodeListener } = await load("@copilotkit/runtime/v2/node");
const { HttpAgent } = await load("@ag-ui/client");

const runtime = new CopilotRuntime({ agents: { default: new HttpAgent({ url }) }, runner: new InMemoryAgentRunner() });
const server = createServer(createCopilotNodeListener({ runtime, basePath: "/copilotkit", cors: true }));
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
