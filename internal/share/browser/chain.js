// A transcript of any length, verified as it comes: the chain is followed line by line,
// and of the events only those that a page shows are kept. What was verified once is
// remembered as marks, so that another part of the same transcript takes moments.
import { Malformed, Refused, must } from "./bytes.js";
import { Chain } from "./trajectory.js";

const EVENTS_AT_ONCE = 1000, MARK_EVERY = 5000, PAUSE_EVERY = 200;

// MOST_EVENTS is how many events a browser follows: a minute or two of its time.
export const MOST_EVENTS = 500000;

// Unanswered: nothing is known to be wrong, and nothing was checked.
export class Unanswered extends Error {}

// linesOf gives the lines of an answer while it arrives. A web server of files sends all
// events at once, whatever it was asked for.
async function* linesOf(answer) {
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  const decode = (bytes, more) => {
    try {
      return decoder.decode(bytes, { stream: more });
    } catch {
      throw new Malformed("not UTF-8");
    }
  };
  const reader = answer.body.getReader();
  let rest = "", ended = false;
  try {
    while (!ended) {
      const { done, value } = await reader.read();
      const lines = (rest + decode(value, !done)).split("\n");
      rest = lines.pop();
      ended = done;
      yield lines;
    }
  } finally {
    if (!ended) await reader.cancel();
  }
  must(rest === "", "the last line is torn");
}

async function ask(address, from) {
  const next = new URL(address);
  next.searchParams.set("from", String(from));
  next.searchParams.set("n", String(EVENTS_AT_ONCE));
  const answer = await fetch(next, { cache: "no-store" });
  if (!answer.ok) throw new Unanswered(`the events from ${from} on: status ${answer.status}`);
  return answer;
}

// nearest are the marks around a window: where following it can begin, and where it can
// end. Marks are of a chain that was followed to its head before.
function nearest(marks, from, to) {
  let begin = null, end = null;
  for (const m of marks) {
    if (m.seq < from) begin = m;
    if (m.seq >= to && end === null) end = m;
  }
  return { begin, end };
}

// followChain verifies a transcript up to the head and gives its events from one number
// to another. marks are those of an earlier time, or none; progress hears how far it is.
export async function followChain({ address, head, from, to, marks }, progress) {
  const { begin, end } = nearest(marks, from, to);
  const chain = new Chain(begin), events = [], seen = [...marks];
  const goal = end ? end.prev : head;
  while (chain.prev !== goal) {
    if (chain.seq >= MOST_EVENTS) throw new Unanswered(`a transcript of more than ${MOST_EVENTS} events; “tally verify” checks it`);
    const before = chain.seq;
    for await (const lines of linesOf(await ask(address, chain.seq + 1))) {
      for (const line of lines) {
        const event = chain.add(line);
        if (chain.seq >= from && chain.seq <= to) events.push([chain.seq, event]);
        if (chain.seq % MARK_EVERY === 0 && marks.length === 0) seen.push(chain.mark());
        if (chain.seq % PAUSE_EVERY === 0) await progress(chain.seq);
        if (chain.prev === goal) break;
      }
      if (chain.prev === goal) break;
    }
    must(chain.seq > before, `the events end after ${chain.seq}, before the head that the record names`, Refused);
  }
  chain.end(goal);
  await progress(chain.seq);
  return { events, marks: seen };
}
