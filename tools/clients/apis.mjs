// Every model API with the official SDK for Node, unchanged: as apis.py.
import Anthropic from "@anthropic-ai/sdk";
import { BedrockRuntimeClient, ConverseCommand, ConverseStreamCommand } from "@aws-sdk/client-bedrock-runtime";
import { GoogleGenAI } from "@google/genai";
import OpenAI, { AzureOpenAI } from "openai";

const show = (...values) => console.log(values.join(" | "));
const hello = [{ role: "user", content: "hello" }];
const asked = [{ role: "user", content: "call get_weather" }];
const weather = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };

async function openaiAPIs(name, client) {
  const model = "gpt-x";
  const reply = await client.chat.completions.create({ model, messages: hello });
  show(`${name} chat`, reply.choices[0].message.content, reply.usage.total_tokens);
  let text = "";
  for await (const p of await client.chat.completions.create({ model, messages: hello, stream: true })) text += p.choices[0]?.delta?.content ?? "";
  show(`${name} chat stream`, text);
  const tools = [{ type: "function", function: { name: "get_weather", parameters: weather } }];
  const call = (await client.chat.completions.create({ model, messages: asked, tools })).choices[0].message;
  show(`${name} chat tool`, call.tool_calls[0].function.name, call.tool_calls[0].function.arguments);
  const response = await client.responses.create({ model, input: "hello" });
  show(`${name} responses`, response.output_text, response.usage.total_tokens);
  show(`${name} responses stream`, (await client.responses.stream({ model, input: "hello" }).finalResponse()).output_text);
  const vectors = await client.embeddings.create({ model: "embed-1", input: ["one", "two"] });
  show(`${name} embeddings`, vectors.data.map((d) => d.embedding.length));
}

async function anthropicAPIs() {
  const client = new Anthropic();
  const ask = { model: "claude-x", max_tokens: 50, messages: hello };
  const reply = await client.messages.create(ask);
  show("anthropic", reply.content[0].text, reply.usage.output_tokens);
  show("anthropic stream", await client.messages.stream(ask).finalText());
  const use = (await client.messages.create({ ...ask, messages: asked, tools: [{ name: "get_weather", input_schema: weather }] })).content.at(-1);
  show("anthropic tool", use.name, JSON.stringify(use.input));
  show("anthropic tokens", (await client.messages.countTokens({ model: "claude-x", messages: hello })).input_tokens > 0);
}

async function geminiAPIs() {
  const { models } = new GoogleGenAI({ apiKey: process.env.GEMINI_API_KEY, httpOptions: { baseUrl: process.env.GOOGLE_GEMINI_BASE_URL } });
  const model = "gemini-x";
  const reply = await models.generateContent({ model, contents: "hello" });
  show("gemini", reply.text, reply.usageMetadata.totalTokenCount);
  let text = "";
  for await (const p of await models.generateContentStream({ model, contents: "hello" })) text += p.text ?? "";
  show("gemini stream", text);
  const config = { tools: [{ functionDeclarations: [{ name: "get_weather", parametersJsonSchema: weather }] }] };
  const call = (await models.generateContent({ model, contents: "call get_weather", config })).functionCalls[0];
  show("gemini tool", call.name, JSON.stringify(call.args));
  show("gemini embeddings", (await models.embedContent({ model: "embed-1", contents: ["one", "two"] })).embeddings.length);
  show("gemini tokens", (await models.countTokens({ model, contents: "hello" })).totalTokens > 0);
}

async function bedrockAPIs() {
  const client = new BedrockRuntimeClient();
  const ask = { modelId: "us.maker.model-v1:0", inferenceConfig: { maxTokens: 50 }, messages: [{ role: "user", content: [{ text: "hello" }] }] };
  const reply = await client.send(new ConverseCommand(ask));
  show("bedrock", reply.output.message.content[0].text, reply.usage.totalTokens);
  let text = "";
  let tokens = 0;
  for await (const e of (await client.send(new ConverseStreamCommand(ask))).stream) {
    text += e.contentBlockDelta?.delta?.text ?? "";
    tokens = e.metadata?.usage?.totalTokens ?? tokens;
  }
  show("bedrock stream", text, tokens);
  const tools = { tools: [{ toolSpec: { name: "get_weather", inputSchema: { json: weather } } }] };
  const use = (await client.send(new ConverseCommand({ ...ask, messages: [{ role: "user", content: [{ text: "call get_weather" }] }], toolConfig: tools }))).output.message.content[0].toolUse;
  show("bedrock tool", use.name, JSON.stringify(use.input));
}

await openaiAPIs("openai", new OpenAI());
await openaiAPIs("azure", new AzureOpenAI({ apiVersion: "2024-10-21" }));
await anthropicAPIs();
await geminiAPIs();
await bedrockAPIs();
