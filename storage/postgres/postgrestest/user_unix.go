//go:build unix

package postgrestest

import (
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// ServerUser returns the user that runs the server if the tests run as root. PostgreSQL itself
// refuses to run as root. ok is false if the tests do not run as root or no suitable user exists.
func ServerUser() (uid, gid int, ok bool) {
	if os.Geteuid() != 0 {
		return 0, 0, false
	}
	for _, name := range []string{"postgres", "nobody"} {
		found, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.Atoi(found.Uid)
		if err != nil {
			continue
		}
		if gid, err := strconv.Atoi(found.Gid); err == nil {
			return uid, gid, true
		}
	}
	return 0, 0, false
}

// give changes the owner of dir to the user that ServerUser returns, if there is one.
func give(dir string) error {
	if uid, gid, ok := ServerUser(); ok {
		return os.Chown(dir, uid, gid)
	}
	return nil
}

// unprivileged returns attributes that make a command run as the user that ServerUser returns. It
// returns nil if there is no such user.
func unprivileged() *syscall.SysProcAttr {
	if uid, gid, ok := ServerUser(); ok {
		return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	}
	return nil
}
