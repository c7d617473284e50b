// Package share is the door to other people: their files on the way in, and on the
// way out packages, credentials, reports and the verifiers for them.
//
// In come files of strangers, and attempts that package dossier has verified; out
// go documents that stand on their own. It trusts no file's word about itself, and
// gives away no text of a held-out case.
package share
