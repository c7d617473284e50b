// Checks what a page shows against the ledger: see docs/viewer.md.
