//go:build !unix

package main

// openFileLimit is how many files and connections this process may have open: what
// there is of such a limit is far beyond what is needed.
func openFileLimit() (limit uint64, known bool) { return 0, false }
