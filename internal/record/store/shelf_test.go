package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/testing/faultfs"
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

// TestShelfSurvivesEveryFault puts and drops on a disk on which each operation goes
// wrong in turn. What was acknowledged is there, what was dropped is gone, and
// nothing else was lost by dropping it.
func TestShelfSurvivesEveryFault(t *testing.T) {
	first, second, third := bytes.Repeat([]byte("first "), 200), bytes.Repeat([]byte("second "), 200), []byte("third")
	var acknowledged [][]byte
	var dropped bool
	everyFault(t, func(*faultfs.Disk) {},
		func(d *faultfs.Disk) error {
			acknowledged, dropped = nil, false
			s, err := store.OpenShelf(d, "/w/shelf")
			if err != nil {
				return err
			}
			for _, data := range [][]byte{first, second} {
				if _, err := s.Put(data); err != nil {
					return err
				}
				acknowledged = append(acknowledged, data)
			}
			if err := s.Drop(digest.ContentOf(first)); err != nil {
				return err
			}
			dropped = true
			if _, err := s.Put(third); err != nil {
				return err
			}
			acknowledged = append(acknowledged, third)
			return s.Close()
		},
		func(d *faultfs.Disk, told error) error {
			s, err := store.OpenShelf(d, "/w/shelf")
			if err != nil {
				return err
			}
			for _, data := range acknowledged {
				got, err := s.Get(digest.ContentOf(data), 1<<20)
				isFirst := bytes.Equal(data, first)
				switch {
				case isFirst && dropped && err == nil:
					return errors.New("the dropped piece is back")
				case isFirst && (dropped || len(acknowledged) == 2):
					// Gone, or about to be.
				case err != nil || !bytes.Equal(got, data):
					return fmt.Errorf("%.10q was acknowledged: %w", data, err)
				}
			}
			_, err = s.Put(first, second, third) // and it goes on
			return err
		})
}
