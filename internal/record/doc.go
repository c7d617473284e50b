// Package record is the door to bytes, keys and the ledger: what is hashed,
// signed and kept, and nothing about evaluation.
//
// In come bytes of any origin and keys; out go documents with one meaning,
// verified ledgers, receipts, and files that survive a crash. It trusts the keys
// that its caller names and nothing else. Everything may import it, and a
// stranger's verifier needs little more.
package record
