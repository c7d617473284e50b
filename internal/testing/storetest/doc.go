// Package storetest has the script tests of ledgers in an object store: they drive
// tally-fleet as a person does, against an S3 server in the test's process.
package storetest
