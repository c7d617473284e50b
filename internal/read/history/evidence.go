package history

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/format"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/trajectory"
)

// FilesOf reads the index of a record's evidence.
func FilesOf(c *Case, read func(digest.Content) ([]byte, error)) (*evidence.CaseFiles, error) {
	if len(c.Evidence) == 0 {
		return nil, refusal.Newf(refusal.NotFound, "the record names no evidence")
	}
	data, err := read(c.Evidence[0])
	if err != nil {
		return nil, err
	}
	files := &evidence.CaseFiles{}
	if err := canon.UnmarshalCanonical(data, files); err != nil {
		return nil, fmt.Errorf("index %s: %w", c.Evidence[0], cmp.Or(format.Newer("it", data, "v", format.Version), err))
	}
	if err := files.Validate(); err != nil {
		return nil, fmt.Errorf("index %s: %w", c.Evidence[0], err)
	}
	return files, nil
}

// TrajectoryOf reads and verifies the trajectory that a record names.
func TrajectoryOf(c *Case, read func(digest.Content) ([]byte, error)) (*trajectory.Verified, error) {
	files, err := FilesOf(c, read)
	if err != nil {
		return nil, err
	}
	return TrajectoryIn(files, read)
}

// TrajectoryIn reads and verifies the trajectory that an index names.
func TrajectoryIn(files *evidence.CaseFiles, read func(digest.Content) ([]byte, error)) (*trajectory.Verified, error) {
	data, err := read(files.Trajectory.Digest)
	if err != nil {
		return nil, fmt.Errorf("trajectory: %w", err)
	}
	v, err := trajectory.Verify(data, trajectory.HeadIs(files.Trajectory.Head))
	if err != nil {
		return nil, fmt.Errorf("trajectory: %w", err)
	}
	return v, nil
}

// SetOf is the set of some digests, in the order of their bytes; never nil. It
// reorders the list.
func SetOf(list []digest.Content) []digest.Content {
	slices.SortFunc(list, func(a, b digest.Content) int { return bytes.Compare(a[:], b[:]) })
	return append([]digest.Content{}, slices.Compact(list)...)
}

// DigestOfSet names a set of digests, as attempt.finished does.
func DigestOfSet(list []digest.Content) (digest.Content, error) {
	data, err := canon.Marshal(SetOf(list))
	return digest.ContentOf(data), err
}
