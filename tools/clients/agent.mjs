// An agent that uses the official SDKs as their documentation shows, and knows
// nothing of Tallystick but the variables it is given. It prints what it sees;
// internal/run/gateway/official_test.go compares that, and what was recorded.
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const openai = new OpenAI();
const anthropic = new Anthropic();
const say = (...parts) => console.log(parts.join(" | "));
const hello = [{ role: "user", content: "Say hello." }];

const chat = { model: "gpt-4o", messages: hello };
const chatBody = async () => {
  const r = await openai.chat.completions.create(chat);
  say("chat body", r.choices[0].message.content, r.usage.total_tokens);
};
const chatStream = async () => {
  let text = "";
  for await (const chunk of await openai.chat.completions.create({ ...chat, stream: true })) text += chunk.choices[0]?.delta?.content ?? "";
  say("chat stream", text);
};
await chatBody();
await chatStream();
await chatStream();
await chatBody();

const ask = { model: "gpt-4o", input: "Say hello." };
const responsesBody = async () => {
  const r = await openai.responses.create(ask);
  say("responses body", r.output_text, r.usage.total_tokens);
};
const responsesStream = async () => {
  let text = "";
  let end = "";
  for await (const event of await openai.responses.create({ ...ask, stream: true })) {
    if (event.type === "response.output_text.delta") text += event.delta;
    if (event.type === "response.completed") end = event.response.status;
  }
  say("responses stream", text, end);
};
await responsesBody();
await responsesStream();
await responsesStream();
await responsesBody();

const message = { model: "claude-sonnet-4-5", max_tokens: 64, messages: hello };
const messagesBody = async () => {
  const r = await anthropic.messages.create(message);
  say("messages body", r.content[0].text, r.stop_reason, r.usage.output_tokens);
};
const messagesStream = async () => {
  const r = await anthropic.messages.stream(message).finalMessage();
  say("messages stream", r.content[0].text, r.stop_reason, r.usage.output_tokens);
};
await messagesBody();
await messagesStream();
await messagesStream();
await messagesBody();

const names = [];
for await (const m of await openai.models.list()) names.push(m.id);
say("openai models", names.join(","));
names.length = 0;
for await (const m of await anthropic.models.list()) names.push(m.id);
say("anthropic models", names.join(","));
say("tokens", (await anthropic.messages.countTokens({ model: message.model, messages: hello })).input_tokens > 0);

// The tools, over HTTP.
const http = new Client({ name: "agent", version: "1" });
const transport = new StreamableHTTPClientTransport(new URL(process.env.TALLY_MCP_URL), {
  requestInit: { headers: { Authorization: `Bearer ${process.env.TALLY_TOKEN}` } },
});
await http.connect(transport);
say("tools", (await http.listTools()).tools.map((t) => t.name).join(","));
const denied = await http.callTool({ name: "transfer", arguments: { to: "eve" } });
say("denied", denied.isError, denied.content[0].text.startsWith("denied by policy"));
await transport.terminateSession();
await http.close();

// The same tools, from a program on standard input and output.
const stdio = new Client({ name: "agent", version: "1" });
await stdio.connect(
  new StdioClientTransport({
    command: process.env.TALLY_BRIDGE_COMMAND,
    env: { TALLY_BRIDGE: "1", TALLY_MCP_URL: process.env.TALLY_MCP_URL, TALLY_TOKEN: process.env.TALLY_TOKEN },
  }),
);
await stdio.ping();
const weather = (await stdio.listTools()).tools.find((t) => t.name === "get_weather");
const question = { role: "user", content: "What is the weather in Oslo?" };

// A loop with chat completions: the model proposes, the agent calls the tool.
const functions = [{ type: "function", function: { name: weather.name, description: weather.description, parameters: weather.inputSchema } }];
let messages = [question];
let reply = (await openai.chat.completions.create({ model: "gpt-4o", messages, tools: functions })).choices[0].message;
messages.push(reply);
for (const call of reply.tool_calls) {
  const result = await stdio.callTool({ name: call.function.name, arguments: JSON.parse(call.function.arguments) });
  messages.push({ role: "tool", tool_call_id: call.id, content: result.content[0].text });
}
reply = (await openai.chat.completions.create({ model: "gpt-4o", messages, tools: functions })).choices[0].message;
say("chat loop", reply.content);

// The same with messages.
const tools = [{ name: weather.name, description: weather.description, input_schema: weather.inputSchema }];
messages = [question];
let answer = await anthropic.messages.create({ model: message.model, max_tokens: 64, messages, tools });
messages.push({ role: "assistant", content: answer.content });
const results = [];
for (const block of answer.content.filter((b) => b.type === "tool_use")) {
  const result = await stdio.callTool({ name: block.name, arguments: block.input });
  results.push({ type: "tool_result", tool_use_id: block.id, content: result.content[0].text });
}
messages.push({ role: "user", content: results });
answer = await anthropic.messages.create({ model: message.model, max_tokens: 64, messages, tools });
say("messages loop", answer.content[0].text);
await stdio.close();

// What is not recorded ends the case, at once and for every API.
const failure = async (name, call) => {
  try {
    await call();
    say(name, "no error");
  } catch (e) {
    say(name, e.status, e.message.includes("CassetteMiss"), e.message.includes("the case has ended"));
  }
};
await failure("chat miss", () => openai.chat.completions.create({ model: "gpt-4o", messages: [{ role: "user", content: "Something else." }] }));
await failure("chat stream after", () => openai.chat.completions.create({ ...chat, stream: true }));
await failure("responses after", () => openai.responses.create(ask));
await failure("messages after", () => anthropic.messages.create(message));
