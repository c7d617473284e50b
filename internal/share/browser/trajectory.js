// Trajectories (docs/formats/trajectory.md): every line, their chain and order, and the
// head that a trusted record gives.
import { Malformed, Refused, must, utf8, hex, VERSION, checkFormat } from "./bytes.js";
import { sha256 } from "./hash.js";
import { canonical } from "./canon.js";
import { checkDocument } from "./rules.js";

const ENDS = ["run_completed", "run_failed"];

// A Chain takes the lines of a trajectory in order, however they arrive, and ends at the
// head that was named or refuses. Until end has been called nothing is proved: a chain
// protects every line but the last.
export class Chain {
  // A chain begins at the first event, or at a mark of one that was followed to its head.
  constructor(mark = null) {
    this.prev = mark?.prev ?? "sha256:" + "0".repeat(64);
    this.seq = mark?.seq ?? 0;
    this.turn = mark?.turn ?? 0;
    this.time = mark?.time ?? 0;
    this.ended = false;
  }

  mark() {
    return { prev: this.prev, seq: this.seq, turn: this.turn, time: this.time };
  }

  // add takes a line without its newline and gives the event.
  add(line) {
    const number = this.seq + 1;
    let event;
    try {
      event = canonical(line);
      if (number === 1 && event?.type === "run_started") checkFormat(event.payload?.format, "tallystick-trajectory/" + VERSION);
      checkDocument("events", "line", event);
    } catch (err) {
      throw err instanceof Malformed ? new Malformed(`event ${number}: ${err.message}`) : err;
    }
    must(event.prev === this.prev, `event ${number}: the chain is broken`, Refused);
    if (event.type === "turn_started") this.turn++;
    must(event.seq === number && event.turn === this.turn && event.t >= this.time && !this.ended && (event.type === "run_started") === (number === 1), `event ${number}: out of order`, Refused);
    this.prev = "sha256:" + hex(sha256(utf8(line)));
    this.seq = number;
    this.time = event.t;
    this.ended = ENDS.includes(event.type);
    return event;
  }

  end(head) {
    must(this.prev === head, `the last event hashes to ${this.prev}, the record names ${head}`, Refused);
  }
}

// verifyTrajectory gives the events of a whole trajectory.
export function verifyTrajectory(lines, head) {
  must(lines.endsWith("\n"), "the last line is torn");
  const chain = new Chain();
  const events = lines.split("\n").slice(0, -1).map((line) => chain.add(line));
  if (head !== undefined) chain.end(head);
  return events;
}
