// The conversation of a case in a report: what was said, one card for each call of a tool,
// and what went wrong. conversation.go beside report.go is the same in Go.
import { pointer } from "./canon.js";

// NOTABLE are events that people look for, besides what is said and called.
const NOTABLE = ["policy_violation", "security_event", "limit_reached", "error", "run_failed", "handoff", "memory_written", "rollback"];

// amongCalls are the words of a reply of a model that calls tools, which have cards: it is
// a JSON object. One with other escapes than these is shown as it is, because two readers
// of JSON could read it in two ways. Null if it calls none.
function amongCalls(text) {
  if (text.startsWith('{"tool_calls":[')) return "";
  const found = /^\{"text":"((?:[^"\\]|\\[n"\\])*)","tool_calls":\[/.exec(text);
  return found && found[1].replace(/\\([n"\\])/g, (_, c) => (c === "n" ? "\n" : c));
}

// textAt is a text of a document, "" if there is none.
export function textAt(doc, path) {
  const text = pointer(doc, path);
  return typeof text === "string" ? text : "";
}

// talkOf puts the events of a case together.
export function talkOf(docs) {
  const all = [], calls = new Map();
  let last = "";
  docs.forEach((doc, i) => {
    const add = (item) => {
      all.push({ seq: i + 1, doc, args: null, result: null, decisions: [], ...item });
      return all[all.length - 1];
    };
    const say = (role, at) => {
      const text = textAt(doc, at);
      const words = amongCalls(text);
      if (text === "" || words === "" || (role !== "user" && text === last)) return;
      add({ role, at, words });
      last = text;
    };
    const call = () => {
      const keys = ["id " + textAt(doc, "/payload/id")];
      if (doc.type !== "tool_observed") keys.unshift("call " + textAt(doc, "/payload/call")); // its call is that of the model
      const item = keys.filter((key) => !key.endsWith(" ")).map((key) => calls.get(key)).find((found) => found) ?? add({ role: "tool" });
      for (const key of keys) calls.set(key, item);
      return item;
    };
    switch (doc.type) {
      case "turn_started":
        say("user", "/payload/input/head");
        break;
      case "model_call_completed":
        say("assistant", "/payload/output/head");
        break;
      case "turn_completed":
      case "run_completed":
        say("assistant", "/payload/answer/head");
        break;
      case "tool_proposed":
        call().args = doc;
        break;
      case "tool_executed":
        Object.assign(call(), { args: doc, result: doc });
        break;
      case "tool_observed": {
        const item = call();
        item.args ??= doc;
        if (pointer(doc, "/payload/result") !== undefined) item.result ??= doc;
        break;
      }
      case "policy_decision":
      case "approval_resolved":
        calls.get("call " + textAt(doc, "/payload/call"))?.decisions.push(doc);
        break;
      default:
        if (NOTABLE.includes(doc.type)) add({ role: "note" });
    }
  });
  return all;
}
