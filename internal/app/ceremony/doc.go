// Package ceremony is what people do to a workspace: make it, change who is
// trusted in it, make keys, write classes and cases, compute digests, sign,
// accept, and check the fence in CI.
//
// Each act verifies what it builds on before it writes, writes nothing half,
// and says what is still missing and who may add it. A signature that would not
// count is refused where it is made.
//
// Where it stops: it scores nothing and runs nothing. Whether what was signed
// verifies is for packages seal and bench; what the ledger says, for dossier.
package ceremony
