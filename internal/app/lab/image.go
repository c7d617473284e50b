package lab

import (
	"tallystick/internal/record/digest"
	"tallystick/internal/run/sandbox/image"
)

// RubricImage finds a pinned image in the cache; a scratch class that pins none
// gets a snapshot of this machine's Python.
func RubricImage(pinned digest.Content) (*image.Image, error) {
	cache, err := image.Cache()
	if err != nil {
		return nil, err
	}
	if pinned == (digest.Content{}) {
		return image.SnapshotHost(cache, "")
	}
	return image.Find(cache, pinned.String())
}

// PickImage finds the Python image that a person asked for: by its digest, or
// "host" for a snapshot of this machine's. Unasked, the built one is taken;
// without one, this machine's own Python will do for a try by hand. Whether the
// image is pinned is in it.
func PickImage(wanted string, note func(format string, args ...any)) (*image.Image, error) {
	cache, err := image.Cache()
	if err != nil {
		return nil, err
	}
	if wanted != "" && wanted != "host" {
		return image.Find(cache, wanted)
	}
	if wanted == "" {
		images, err := image.List(cache)
		if err != nil {
			return nil, err
		}
		for _, i := range images {
			if image.IsBuilt(i.Digest) {
				return image.Open(i.Dir)
			}
		}
		note("no pinned Python image; taking a snapshot of this machine's Python, which is not pinned")
	}
	return image.SnapshotHost(cache, "")
}
