// Package chaostest kills, stops and starves the processes of a fleet: the real
// programs, on this machine, with a model provider in the test's process that counts
// what it was asked. Whatever happens, each case is recorded once, every call that was
// paid for is in the books, and the ledger verifies.
package chaostest
