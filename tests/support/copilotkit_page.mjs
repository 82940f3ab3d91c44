// A page of CopilotKit that shows interrupts with its hook. `window.settings` has the URL of the agent, or of a runtime.
import { HttpAgent } from "@ag-ui/client";
import { CopilotChat, CopilotKitProvider, useInterrupt } from "@copilotkit/react-core/v2";
import { createElement, useState } from "react";
import { createRoot } from "react-dom/client";

const { agentUrl, runtimeUrl } = window.settings;
const source = runtimeUrl
  ? { runtimeUrl }
  : { selfManagedAgents: { default: new HttpAgent({ url: agentUrl, threadId: "t1" }) } };

function Question({ interrupt, resolve, cancel }) {
  const [words, setWords] = useState("");
  if (!interrupt) return null;
  const { properties } = interrupt.responseSchema;
  const edited = () => ({ ...interrupt.metadata.midturn.arguments, amount: Number(words) });
  const payload = () => (properties.approved ? { approved: true, editedArgs: edited() } : { answer: words });
  return createElement(
    "section",
    { "aria-label": "Question" },
    createElement("p", {}, interrupt.message),
    createElement("input", { "aria-label": "Words", value: words, onChange: (event) => setWords(event.target.value) }),
    createElement("button", { onClick: () => resolve(payload()) }, "Resolve"),
    createElement("button", { onClick: () => cancel() }, "Cancel"),
  );
}

function Questions() {
  useInterrupt({ agentId: "default", render: (given) => createElement(Question, { key: given.interrupt?.id, ...given }) });
  return null;
}

const chat = createElement(CopilotChat, { agentId: "default", threadId: "t1" });
createRoot(document.getElementById("root")).render(
  createElement(CopilotKitProvider, source, createElement(Questions), chat),
);
