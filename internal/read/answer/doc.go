// Package answer is what people are told of a workspace that was verified: the log of
// its attempts, one attempt or case, why a case ended as it did, what test reporters
// read, advice on a tier, and whether everything counts to the same again.
//
// It takes what package dossier read and what the deciders (scorecard, gate, promote,
// recount) make of that, and puts it into the form that commands print and pages show.
// Texts of held-out cases are in it as salted digests, unless the caller asked to see
// them.
//
// Where it stops: it verifies nothing itself, and writes only reports that a person
// named a file for, and the advice that package promote gave.
package answer
