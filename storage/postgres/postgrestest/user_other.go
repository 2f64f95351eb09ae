//go:build !unix

package postgrestest

import "syscall"

func give(string) error { return nil }

func unprivileged() *syscall.SysProcAttr { return nil }
