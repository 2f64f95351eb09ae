//go:build unix

package ledger_test

import "syscall"

// init sets a umask with which only the owner can write to new folders. With umask 002, the group
// could write too, and the key store would refuse the folders.
func init() { syscall.Umask(0o022) }
