// The page as a key of its ledger signed it: of a site of files in its manifest, of a page
// that "tally view" serves by itself. Whatever sends the page, the signature says that
// the holder of the key wrote it.
import { Refused, VERSION, checkFormat, must, text, utf8, hex, equal } from "./bytes.js";
import { sha256 } from "./hash.js";
import { canonical } from "./canon.js";
import { sshSigner } from "./receipt.js";

// signedPage gives the text of the page at this address, as it was signed. how is what the page says: the
// manifest of a site, or where a served page is kept.
export async function signedPage(how, ask, root, keys) {
  if (how === "site.json") return ofSite(ask, root, keys);
  must(/^page\/[0-9a-f]{32}$/.test(how), "the page says in no known way how it is signed", Refused);
  const doc = await (await ask(how)).json();
  const statement = signedBy(String(doc.statement), String(doc.signature), "tallystick-page", keys);
  checkFormat(statement.format, "tallystick-page/" + VERSION);
  must(statement.origin === keys.origin && statement.address === location.pathname + location.search, `the signature is of the page ${statement.address} of ${statement.origin}`, Refused);
  must("sha256:" + hex(sha256(utf8(String(doc.html)))) === statement.sha256, "the page is not the one that was signed", Refused);
  return doc.html;
}

// signedBy is a document of canonical JSON that a key of the ledger signed.
function signedBy(document, signature, namespace, keys) {
  const signer = sshSigner(signature, utf8(document), namespace);
  must(keys.list().some((k) => k.name === keys.origin && equal(k.key, signer)), "the page is signed by no key that was named", Refused);
  return canonical(document);
}

// ofSite finds the page in the signed list of the site's files.
async function ofSite(ask, root, keys) {
  const [list, signature] = await Promise.all([ask("site.json"), ask("site.json.sig")]);
  const site = signedBy(await list.text(), await signature.text(), "tallystick-site", keys);
  checkFormat(site.schema, "tallystick-site/" + VERSION);
  must(site.origin === keys.origin, `the site is of the ledger ${site.origin}`, Refused);
  const path = decodeURIComponent(location.pathname.slice(root.pathname.length)).replace(/(^|\/)$/, "$1index.html");
  const file = site.files.find((f) => f.path === path);
  must(file, `${path} is not in the signed list of files`, Refused);
  const bytes = new Uint8Array(await (await ask(location.pathname)).arrayBuffer());
  must("sha256:" + hex(sha256(bytes)) === file.sha256, `${path} is not the file that was signed`, Refused);
  return text(bytes);
}
