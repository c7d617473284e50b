package ledger

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
)

// ledgerOf is a sealed ledger of n notes of about 2 KB, 256 to a batch.
func ledgerOf(b *testing.B, n int) []byte {
	b.Helper()
	c := NewChain(testOrigin)
	var out []byte
	add := func(it item) {
		p := c.Append(digest.ContentOf(it.entry))
		out = AppendEntryLine(out, it.entry, p.Head)
	}
	seal := func() {
		signed := sealChain(b, c, olga, testOrigin)
		out = AppendSealLine(out, signed.size, c.Head(), signed.sig)
	}
	add(genesisItem(b))
	seal()
	body := fmt.Appendf(nil, `{"pad":"%s"}`, strings.Repeat("p", 2038))
	for i := range n {
		add(entryItem(evidence.NoteKind, body, testTime))
		if i%256 == 255 || i == n-1 {
			seal()
		}
	}
	return out
}

func BenchmarkVerify(b *testing.B) {
	const n = 20_000
	data := ledgerOf(b, n)
	for _, strict := range []bool{false, true} {
		name := "walk"
		if strict {
			name = "strict"
		}
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			o := trust(b)
			o.Decode = strict
			for b.Loop() {
				mustVerify(b, one(data), o)
			}
			b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "entries/s")
		})
	}
}

func BenchmarkProof(b *testing.B) {
	const n = 1 << 17
	tree, _ := treeOf(b, n)
	root, err := tree.Root(n)
	if err != nil {
		b.Fatal(err)
	}
	leaf := tree.hashes.at(tlog.StoredHashIndex(0, 4321))
	var proof tlog.RecordProof
	b.Run("make", func(b *testing.B) {
		for b.Loop() {
			if proof, err = tree.ProveInclusion(n, 4321); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("check", func(b *testing.B) {
		for b.Loop() {
			if err := tlog.CheckRecord(proof, n, root, 4321, leaf); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkVerifyReceipt(b *testing.B) {
	receipt, _, checkpoint, p := proofs(b)
	b.Run("whole", func(b *testing.B) {
		for b.Loop() {
			if _, err := VerifyReceipt(receipt, nil, p); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("checkpoint", func(b *testing.B) {
		for b.Loop() {
			if _, err := VerifyCheckpoint(checkpoint, p); err != nil {
				b.Fatal(err)
			}
		}
	})
}
