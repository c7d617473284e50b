// Package benchmarks measures Tallystick against floors taken in the same run:
// what the disk and the hash function do by themselves. Absolute figures differ
// from machine to machine; the ratios hardly do.
//
//	benchmarks/ledger.sh            the ledger
//	benchmarks/registry.sh          the registry
//	cd benchmarks/tessera && go test -run Figures -v . -figures   a peer
package benchmarks
