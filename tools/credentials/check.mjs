// An implementation of eddsa-jcs-2022 that is not ours (Digital Bazaar's) on
// credentials. Only did:key is resolved, by hand: nothing is fetched.
//
//   node check.mjs verify FILE       the credential, and the runner's proof in its body
//   node check.mjs forge FILE        every string and number of it changed, one at a time
//   node check.mjs sign FILE SEED    signs the body in FILE; prints the credential
import {readFileSync} from 'node:fs';
import {DataIntegrityProof} from '@digitalbazaar/data-integrity';
import {createSignCryptosuite, createVerifyCryptosuite} from '@digitalbazaar/eddsa-jcs-2022-cryptosuite';
import jsigs from 'jsonld-signatures';
import {fromSeed, resolve} from './didkey.mjs';

const purpose = () => new jsigs.purposes.AssertionProofPurpose();

async function documentLoader(url) {
  if(!url.startsWith('did:key:')) {
    throw new Error('nothing is fetched: ' + url);
  }
  return {contextUrl: null, documentUrl: url, document: resolve(url)};
}

async function verified(document) {
  const suite = new DataIntegrityProof({cryptosuite: createVerifyCryptosuite()});
  return (await jsigs.verify(structuredClone(document), {suite, purpose: purpose(), documentLoader})).verified;
}

async function verify(document) {
  const parts = [document];
  if(document.credentialSubject?.proof) {
    parts.push(document.credentialSubject);
  }
  for(const part of parts) {
    if(!await verified(part)) {
      throw new Error('does not verify: ' + (part.type ?? 'the body'));
    }
  }
  return parts.length;
}

// leaves are the paths to every string and number but the proof's own members:
// those are its options, and one by one they are tried in our own tests.
function leaves(value, path = []) {
  if(typeof value === 'object' && value !== null) {
    return Object.entries(value).flatMap(([k, v]) => path.length === 0 && k === 'proof' ? [] : leaves(v, [...path, k]));
  }
  return [path];
}

async function forge(document) {
  const paths = leaves(document);
  for(const path of paths) {
    const copy = structuredClone(document);
    const at = path.slice(0, -1).reduce((v, k) => v[k], copy);
    const last = path.at(-1);
    at[last] = typeof at[last] === 'number' ? at[last] + 1 : at[last] + 'x';
    if(await verified(copy).catch(() => false)) {
      throw new Error('verifies although changed: ' + path.join('.'));
    }
  }
  return paths.length;
}

async function sign(document, seed) {
  const key = await fromSeed(Buffer.from(seed.trim(), 'hex'));
  delete document.proof;
  document.issuer = key.controller;
  const suite = new DataIntegrityProof({signer: key.signer(), cryptosuite: createSignCryptosuite()});
  return jsigs.sign(document, {suite, purpose: purpose(), documentLoader});
}

const [what, file, seed] = process.argv.slice(2);
const document = JSON.parse(readFileSync(file));
if(what === 'verify') {
  console.log(await verify(document));
} else if(what === 'forge') {
  console.log(await forge(document));
} else {
  console.log(JSON.stringify(await sign(document, readFileSync(seed, 'utf8'))));
}
