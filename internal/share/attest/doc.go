// Package attest makes and verifies the documents in which a score leaves the
// building: the body of an attestation (ip.eval.run.attestation.v1), the runner's
// own proof over it, the W3C Verifiable Credential 2.0 around it, and DSSE
// envelopes.
//
// Start with [ParseBody] and [CheckBody] (is this a body?), [SignBody] and
// [VerifyBody] (the runner's proof), [Issue] and [Verify] (the
// credential). [Secure], which adds a proof beside others, and [VerifyDocument] are the layer below: Data Integrity
// proofs of the cryptosuite eddsa-jcs-2022 over any JSON document. [Keys] holds
// what a verifier was given to find keys in.
//
// What a caller may rely on:
//
//   - Nothing is fetched, run or followed. A DID document, a key set or a status
//     list that was not given is missing, and what needs it is refused.
//   - A [Verified] comes only out of [Verify], and a [SignedBody] only out of
//     [VerifyBody].
//   - Dates inside a credential prove nothing about when it was made. Under a
//     retired key a credential verifies only if the caller shows, from elsewhere,
//     that it existed before the retirement ([Trust.IssuedBeforeRetirement]).
//   - Every proof of a document must verify. One good proof does not excuse a bad
//     one.
//
// Where it stops: a proof shows who says so, not that it is true. The digests of
// dataset, code, harness and model are checked for their form; a verifier who has the
// bytes must hash them. A status list that is old but still valid hides what was
// revoked since. Proofs do not cover each other, so dropping an endorsement is not
// noticed. The cryptosuite eddsa-rdfc-2022 needs JSON-LD canonicalisation and is
// refused, as is any other.
//
// The format is described in docs/formats/credential.md.
package attest
