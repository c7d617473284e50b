// Package registry is a catalogue of evaluations and the credential service
// beside it: who proposed what, who judged it, what was published, revoked and
// taken down.
//
// The ledger is the truth. Every write is an entry of it before it is answered;
// the database is an index that [Rebuild] makes again from the ledger and the
// blobs, to the same answers. What decides (who may write, who may vote, what was
// proposed before) is read off verified entries that are kept in memory, and
// never off the database: a row that was changed by hand decides nothing.
//
// One process writes. Others may read the database ([OpenReader]).
package registry
