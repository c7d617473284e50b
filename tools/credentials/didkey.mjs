// Keys of did:key, made and resolved by hand: nothing is fetched.
import * as Multikey from '@digitalbazaar/ed25519-multikey';

export function resolve(url) {
  const [did, name] = url.split('#');
  const key = did.slice('did:key:'.length);
  const method = {'@context': 'https://w3id.org/security/multikey/v1', type: 'Multikey', id: did + '#' + key, controller: did, publicKeyMultibase: key};
  return name ? method : {'@context': ['https://www.w3.org/ns/did/v1'], id: did, assertionMethod: [method]};
}

// fromSeed is a key with the name that it has as a did:key.
export async function fromSeed(seed) {
  const key = await Multikey.generate({seed});
  const {publicKeyMultibase} = await key.export({publicKey: true});
  key.controller = 'did:key:' + publicKeyMultibase;
  key.id = key.controller + '#' + publicKeyMultibase;
  return key;
}
