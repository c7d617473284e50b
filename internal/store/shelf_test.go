package store_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"tallystick/internal/digest"
	"tallystick/internal/refusal"
	"tallystick/internal/store"
)

func TestShelfKeepsWhatItAcknowledgedAndDropsForGood(t *testing.T) {
	dir := t.TempDir()
	s, err := store.OpenShelf(store.OS{}, dir)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			if _, err := s.Put(fmt.Appendf(nil, "piece %d", i), []byte("common")); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if err := s.Drop(digest.ContentOf([]byte("piece 7"))); err != nil {
		t.Fatal(err)
	}
	if err := s.Drop(digest.ContentOf([]byte("common"))); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put([]byte("later")); err != nil {
		t.Fatal(err)
	}
	check := func(s *store.Shelf) {
		t.Helper()
		for i := range 50 {
			want := fmt.Appendf(nil, "piece %d", i)
			got, err := s.Get(digest.ContentOf(want), 100)
			if i == 7 {
				if !refusal.Is(err, refusal.NotFound) {
					t.Errorf("the dropped piece: %q, %v", got, err)
				}
			} else if !bytes.Equal(got, want) {
				t.Errorf("piece %d: %q, %v", i, got, err)
			}
		}
		if s.Has(digest.ContentOf([]byte("common"))) {
			t.Error("a piece that many put at once is still there after it was dropped")
		}
	}
	check(s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := store.OpenShelf(store.OS{}, dir)
	if err != nil {
		t.Fatal(err)
	}
	check(again)
	names, _ := filepath.Glob(filepath.Join(dir, "*"))
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(data, []byte("piece 7")) || bytes.Contains(data, []byte("common")) {
			t.Errorf("%s still has the bytes of a dropped piece", name)
		}
	}
}
