//go:build unix

package server

import "syscall"

// OpenFileLimit is how many files and connections this process may have open.
func OpenFileLimit() (limit uint64, known bool) {
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r); err != nil {
		return 0, false
	}
	return uint64(r.Cur), true
}
