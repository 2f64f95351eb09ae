//go:build unix

package ledger_test

import "syscall"

// init sets a umask under which new folders are writable only by their owner, which the tests
// need. With umask 002, their group could write too.
func init() { syscall.Umask(0o022) }
