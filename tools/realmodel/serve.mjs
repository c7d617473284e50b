// An OpenAI-compatible server around a model on this machine: chat completions,
// as a body and streamed, one at a time. At temperature 0 it is deterministic;
// above, each answer is another draw. A line of its output tells of each answer.
//
//   node serve.mjs MODEL.gguf PORT
import { createServer } from "node:http";
import { getLlama, LlamaChatSession } from "node-llama-cpp";

const [path, port] = process.argv.slice(2);
const llama = await getLlama({ gpu: false, logLevel: "error" });
const model = await llama.loadModel({ modelPath: path });
const context = await model.createContext({ contextSize: 1024, threads: 1 });
const sequence = context.getSequence();
const name = "smollm2-135m-instruct";
let turn = Promise.resolve(); // requests wait for each other

// answer takes the last message as the question, what is before it as history.
async function answer(q, onText) {
  const session = new LlamaChatSession({ contextSequence: sequence, systemPrompt: "" });
  try {
    const history = [];
    for (const m of q.messages.slice(0, -1)) {
      if (m.role === "assistant") history.push({ type: "model", response: [m.content] });
      else history.push({ type: m.role === "system" ? "system" : "user", text: m.content });
    }
    session.setChatHistory(history);
    const prompt = q.messages.at(-1).content;
    const before = sequence.tokenMeter.usedInputTokens;
    const { responseText: text, stopReason } = await session.promptWithMeta(prompt, {
      maxTokens: q.max_completion_tokens ?? q.max_tokens ?? 64,
      temperature: q.temperature ?? 0,
      seed: q.seed ?? asked,
      onTextChunk: onText,
    });
    const usage = { prompt_tokens: Math.max(1, sequence.tokenMeter.usedInputTokens - before), completion_tokens: Math.max(1, model.tokenize(text).length) };
    usage.total_tokens = usage.prompt_tokens + usage.completion_tokens;
    return { text, usage, reason: stopReason === "maxTokens" ? "length" : "stop" };
  } finally {
    session.dispose({ disposeSequence: false });
    await sequence.clearHistory();
  }
}

let asked = 0;
const server = createServer(async (req, res) => {
  let body = "";
  for await (const piece of req) body += piece;
  if (req.method !== "POST" || req.url !== "/v1/chat/completions") return res.writeHead(404).end("{}");
  const q = JSON.parse(body);
  const id = `chatcmpl-local${++asked}`;
  const head = { id, created: 0, model: name };
  const done = turn.then(async () => {
    if (!q.stream) {
      const a = await answer(q);
      const choice = { index: 0, message: { role: "assistant", content: a.text }, finish_reason: a.reason };
      res.writeHead(200, { "content-type": "application/json", "x-request-id": id });
      return res.end(JSON.stringify({ ...head, object: "chat.completion", choices: [choice], usage: a.usage }));
    }
    res.writeHead(200, { "content-type": "text/event-stream", "x-request-id": id });
    const send = (choices, more) => res.write(`data: ${JSON.stringify({ ...head, object: "chat.completion.chunk", choices, ...more })}\n\n`);
    send([{ index: 0, delta: { role: "assistant", content: "" }, finish_reason: null }]);
    const a = await answer(q, (text) => send([{ index: 0, delta: { content: text }, finish_reason: null }]));
    send([{ index: 0, delta: {}, finish_reason: a.reason }]);
    if (q.stream_options?.include_usage) send([], { usage: a.usage });
    res.end("data: [DONE]\n\n");
  });
  turn = done.then(() => console.log(`answered ${id}`), (e) => {
    console.error(e);
    res.destroy();
  });
});
server.listen(Number(port), "127.0.0.1", () => console.log(`listening on ${server.address().port}`));
