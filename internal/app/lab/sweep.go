package lab

import "tallystick/internal/record/store"

// Sweep removes what earlier processes of this user that were killed left in the folder
// for temporary files.
func Sweep() { store.SweepTemp() }

// Release gives back what this process holds of that folder.
func Release() { store.ReleaseTemp() }
