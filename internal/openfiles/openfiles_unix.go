//go:build unix

package openfiles

import "syscall"

// Limit returns the number of files and connections that this process may open.
func Limit() (limit uint64, known bool) {
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r); err != nil {
		return 0, false
	}
	return uint64(r.Cur), true
}
