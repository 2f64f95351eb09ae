//go:build !unix

package server

// OpenFileLimit is how many files and connections this process may have open: what
// there is of such a limit is far beyond what is needed.
func OpenFileLimit() (limit uint64, known bool) { return 0, false }
