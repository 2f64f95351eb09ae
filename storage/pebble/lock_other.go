//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package pebble

import "io"

// lockItself has no lock for a folder here. (On Windows, the one other system
// in use, a lock file that is held cannot be deleted.)
func lockItself(string) (io.Closer, error) { return nil, nil }
