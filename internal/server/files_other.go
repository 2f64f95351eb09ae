//go:build !unix

package server

// OpenFileLimit returns the number of files that this process may open. It is not known on
// this system, where the limit is far above what a server needs.
func OpenFileLimit() (limit uint64, known bool) { return 0, false }
