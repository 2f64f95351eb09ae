//go:build unix

package ledger_test

import "syscall"

// init lets tests make folders that no other user can write to, as umask 002 would not.
func init() { syscall.Umask(0o022) }
