//go:build !unix

package digest

const openFlags = 0
