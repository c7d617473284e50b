// Package bench loads task classes and verifies that people signed them.
//
// A task class is a folder of cases, a rubric and a registration. [Load] reads
// one as it is, for the commands that prepare and sign it. [Verify] is the only
// way to a [Verified], which is what may run: every byte of it was read once,
// without following a link, compared with a pinned digest, and covered by the
// signatures of two people. It keeps those bytes, so that what was verified is
// what runs, whatever happens to the folder afterwards.
//
// What is signed is canonical JSON of the decoded documents and never the bytes
// of a YAML file, so a comment may change and a value may not. The formats are
// in docs/formats/case.md.
//
// One refusal refuses the whole class: a bench of which one case is forged
// measures something that the signers did not agree to.
//
// Where it stops: signatures say that two people agreed, not that the case is
// any good; who is trusted is always given by the caller; nothing here runs a
// rubric, writes a file or changes a tier.
package bench
