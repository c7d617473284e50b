package dossier

// KeepFrom has a ledger's past kept from so many entries on, until the test ends.
func KeepFrom(entries int64) (restore func()) {
	was := worthKeeping
	worthKeeping = entries
	return func() { worthKeeping = was }
}
