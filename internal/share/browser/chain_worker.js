// Follows a transcript beside the page, so that the page stays smooth meanwhile.
import { Malformed, Refused } from "./bytes.js";
import { Unanswered, followChain } from "./chain.js";

const kindOf = (err) => [Refused, Malformed, Unanswered].find((kind) => err instanceof kind)?.name ?? "Error";

self.onmessage = async ({ data }) => {
  try {
    const found = await followChain(data, (seq) => self.postMessage({ seq }));
    self.postMessage({ found });
  } catch (err) {
    self.postMessage({ kind: kindOf(err), message: err.message });
  }
};
