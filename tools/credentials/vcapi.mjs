// The VC-API of a registry and another implementation of what it speaks, Digital
// Bazaar's: they verify what the registry issues, the registry verifies what they
// sign, and both refuse the same documents. The statuses are those of the VC-API
// (w3c-ccg/vc-api, issuer.yml and verifier.yml): 201 issued, 200 verified, 400 not.
//
//   node vcapi.mjs URL APIKEY
import {readFileSync} from 'node:fs';
import {DataIntegrityProof} from '@digitalbazaar/data-integrity';
import {createSignCryptosuite, createVerifyCryptosuite} from '@digitalbazaar/eddsa-jcs-2022-cryptosuite';
import * as vc from '@digitalbazaar/vc';
import jsigs from 'jsonld-signatures';
import {fromSeed, resolve} from './didkey.mjs';

const [url, apiKey] = process.argv.slice(2);
const day = 24 * 60 * 60 * 1000;
const inDays = n => new Date(Date.now() + n * day).toISOString().replace(/\.\d+Z/, 'Z');
const failures = [];

async function post(path, body, headers = {}) {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  const response = await fetch(url + path, {method: 'POST', body: text, headers: {'content-type': 'application/json', ...headers}});
  return {status: response.status, body: await response.json()};
}
const authorized = {authorization: 'Bearer ' + apiKey};
const issueHere = credential => post('/credentials/issue', {credential, options: {}}, authorized);
const verifyHere = (verifiableCredential, options = {}) => post('/credentials/verify', {verifiableCredential, options});

// expect keeps going, so that one run shows everything that differs.
function expect(what, answer, status, verified) {
  if(answer.status !== status || (verified !== undefined && answer.body.verified !== verified)) {
    failures.push(`${what}: ${answer.status} ${JSON.stringify(answer.body)}, expected ${status}${verified === undefined ? '' : ' and verified ' + verified}`);
  }
}

// documents are those of did:web: the registry's own, as it serves it, and one more.
const documents = new Map();
async function documentLoader(address) {
  const [did, name] = address.split('#');
  if(did.startsWith('did:key:')) {
    return {contextUrl: null, documentUrl: address, document: resolve(address)};
  }
  if(!documents.has(did)) {
    return vc.defaultDocumentLoader(address);
  }
  const whole = structuredClone(documents.get(did));
  const method = whole.verificationMethod.find(m => m.id === address);
  return {contextUrl: null, documentUrl: address, document: name ? {'@context': 'https://w3id.org/security/multikey/v1', ...method} : whole};
}

async function verifyThere(credential) {
  const suite = new DataIntegrityProof({cryptosuite: createVerifyCryptosuite()});
  return vc.verifyCredential({credential: JSON.parse(JSON.stringify(credential)), suite, documentLoader});
}

async function wantVerifiedThere(what, credential) {
  const {verified, error} = await verifyThere(credential);
  if(!verified) {
    failures.push(`${what} does not verify there: ${error} ${error?.errors?.map(String)}`);
  }
}

async function wantRefusedThere(what, credential) {
  if((await verifyThere(credential)).verified) {
    failures.push(`${what}: verifies there`);
  }
}

// sign does not look at the document as vc.issue would: forgers do not either.
function sign(document, key, {purpose = new jsigs.purposes.AssertionProofPurpose(), date} = {}) {
  const suite = new DataIntegrityProof({signer: key.signer(), date, cryptosuite: createSignCryptosuite()});
  return jsigs.sign(structuredClone(document), {suite, purpose, documentLoader});
}

// The contexts are addresses only: Digital Bazaar's library compares contexts that are
// objects by identity, and so refuses every document with one that was sent as JSON.
function credentialOf(issuer, more = {}) {
  return {
    '@context': ['https://www.w3.org/ns/credentials/v2', 'https://www.w3.org/ns/credentials/undefined-terms/v2'],
    id: 'urn:uuid:86294362-4254-4f36-854f-3952fe42555d', type: ['VerifiableCredential'], issuer,
    credentialSubject: {id: 'did:example:subject', alumniOf: 'Hoch€chule für Beiſpiele', score: [1e21, 0.1, -0, 1e-7, 333333333.3333333]},
    ...more
  };
}

// changes are copies of a document, each with one string, number or member changed.
function * changes(document, path = []) {
  const at = path.reduce((v, k) => v[k], document);
  for(const [name, value] of Object.entries(at)) {
    const place = [...path, name];
    if(typeof value === 'object') {
      yield * changes(document, place);
      continue;
    }
    const copy = structuredClone(document);
    path.reduce((v, k) => v[k], copy)[name] = typeof value === 'number' ? value + 1 || 7 : value + 'x';
    // 1e21 + 1 is 1e21.
    if(JSON.stringify(copy) !== JSON.stringify(document)) {
      yield {where: place.join('.'), copy};
    }
  }
}

async function issuedHere(did) {
  const wanted = {
    'a credential': {}, 'an issuer as an object': {issuer: {id: did, name: 'The registry'}}, 'dates': {validFrom: inDays(-1), validUntil: inDays(1)},
    'no id': {id: undefined}, 'two subjects': {credentialSubject: [{alumniOf: 'one'}, {alumniOf: 'two'}]}
  };
  let verified = 0, changed = 0;
  for(const [what, more] of Object.entries(wanted)) {
    const answer = await issueHere(credentialOf(did, more));
    expect(`issue ${what}`, answer, 201);
    const {verifiableCredential} = answer.body;
    if(!verifiableCredential) {
      continue;
    }
    await wantVerifiedThere(what, verifiableCredential);
    expect(`verify ${what}`, await verifyHere(verifiableCredential), 200, true);
    verified++;
    for(const {where, copy} of changes(verifiableCredential)) {
      expect(`${what}, ${where} changed`, await verifyHere(copy), 400, false);
      await wantRefusedThere(`${what}, ${where} changed`, copy);
      changed++;
    }
  }
  return {verified, changed};
}

async function signedThere() {
  const key = await fromSeed(Buffer.alloc(32, 7));
  const thief = await fromSeed(Buffer.alloc(32, 8));
  const credential = credentialOf(key.controller);
  const good = await vc.issue({credential: structuredClone(credential), documentLoader,
    suite: new DataIntegrityProof({signer: key.signer(), cryptosuite: createSignCryptosuite()})});
  expect('signed there', await verifyHere(good), 200, true);
  await wantVerifiedThere('signed there', good);

  // A did:web: its document comes with the request.
  const did = 'did:web:lab.example', id = did + '#key-1';
  const method = {...resolve(key.id), id, controller: did};
  delete method['@context'];
  const document = {'@context': ['https://www.w3.org/ns/did/v1', 'https://w3id.org/security/multikey/v1'], id: did, verificationMethod: [method], assertionMethod: [id]};
  documents.set(did, document);
  const web = await fromSeed(Buffer.alloc(32, 7));
  web.id = id;
  web.controller = did;
  const webGood = await sign(credentialOf(did), web);
  expect('a did:web', await verifyHere(webGood, {didDocuments: [document]}), 200, true);
  await wantVerifiedThere('a did:web', webGood);
  expect('a did:web without its document', await verifyHere(webGood), 400, false);
  const notForThis = {...document, assertionMethod: [], authentication: [id]};
  expect('a key that is not for assertions', await verifyHere(webGood, {didDocuments: [notForThis]}), 400, false);
  documents.set(did, notForThis);
  await wantRefusedThere('a key that is not for assertions', webGood);

  const other = await sign(credentialOf(key.controller, {name: 'another'}), key);
  const without = structuredClone(good);
  delete without.proof;
  const late = structuredClone(credential);
  const refused = {
    'the proof of another credential': {...good, proof: other.proof},
    'a proof without its last character': {...good, proof: {...good.proof, proofValue: good.proof.proofValue.slice(0, -1)}},
    'signed for authentication': await sign(credential, key, {purpose: new jsigs.purposes.AuthenticationProofPurpose({challenge: 'c'})}),
    'the purpose renamed': {...good, proof: {...good.proof, proofPurpose: 'authentication'}},
    'expired': await sign({...late, validFrom: inDays(-3), validUntil: inDays(-2)}, key),
    'not valid yet': await sign({...late, validFrom: inDays(2)}, key),
    'the context of version 1': await sign({...credential, '@context': ['https://www.w3.org/2018/credentials/v1']}, key),
    'contexts in another order': await sign({...credential, '@context': [...credential['@context']].reverse()}, key),
    'no context': await sign({...credential, '@context': []}, key),
    'no proof': without,
    'an empty list of proofs': {...good, proof: []},
    'signed by another person': await sign(credential, thief),
    'no type': await sign({...credential, type: []}, key),
    'no subject': await sign({...credential, credentialSubject: undefined}, key),
    'no issuer': await sign({...credential, issuer: undefined}, key)
  };
  for(const [what, document] of Object.entries(refused)) {
    expect(what, await verifyHere(document), 400, false);
    await wantRefusedThere(what, document);
  }
  return Object.keys(refused).length;
}

// asked wrongly: the statuses of the VC-API and of HTTP.
async function asked(did) {
  const credential = credentialOf(did);
  const answers = [
    ['issue without a key', 401, post('/credentials/issue', {credential})],
    ['issue with a wrong key', 401, post('/credentials/issue', {credential}, {authorization: 'Bearer ak_wrong'})],
    ['issue in the name of another', 400, issueHere(credentialOf('did:web:victim.example'))],
    ['issue with the wrong context', 400, issueHere({...credential, '@context': ['https://a.example/v1']})],
    ['issue with a proof in it', 400, issueHere({...credential, proof: {type: 'DataIntegrityProof'}})],
    ['issue nothing', 400, post('/credentials/issue', {}, authorized)],
    ['verify nothing', 400, post('/credentials/verify', {})],
    ['verify a text', 400, post('/credentials/verify', {verifiableCredential: 'x'})],
    ['verify what is not JSON', 400, post('/credentials/verify', '{')],
    ['verify another media type', 415, post('/credentials/verify', '{}', {'content-type': 'text/plain'})]
  ];
  for(const [what, status, answer] of answers) {
    expect(what, await answer, status);
  }
  return answers.length;
}

const own = await (await fetch(url + '/.well-known/did.json')).json();
documents.set(own.id, own);
const {verified, changed} = await issuedHere(own.id);
const refused = await signedThere();
const wrong = await asked(own.id);
if(failures.length > 0) {
  console.error(failures.join('\n'));
  process.exit(1);
}
const {version} = JSON.parse(readFileSync('node_modules/@digitalbazaar/vc/package.json'));
console.log(`conformance: @digitalbazaar/vc@${version} verified ${verified} credentials that the registry issued, the registry 2 that it signed; both refused ${changed} changed ones and ${refused} forged or outdated ones; ${wrong} wrong requests had the status of the VC-API`);
