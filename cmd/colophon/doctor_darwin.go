package main

import (
	"fmt"
	"os"
	"runtime/debug"
	"syscall"

	"colophon/internal/server"
)

// lookAtMachine asks macOS for what it says without more libraries.
func lookAtMachine(int) machine {
	m := machine{goMemory: debug.SetMemoryLimit(-1), surroundings: containerHint("/", os.LookupEnv)}
	m.openFiles, _ = server.OpenFileLimit()
	return m
}

// mountOf is the kind of file system that a path is on.
func mountOf(path string) (kind, options string) {
	var s syscall.Statfs_t
	if syscall.Statfs(path, &s) != nil {
		return "", ""
	}
	for _, c := range s.Fstypename {
		if c == 0 {
			break
		}
		kind += string(rune(c))
	}
	return kind, ""
}

// roomOf is the room of the file system that a path is on.
func roomOf(path string) (*room, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(path, &s); err != nil {
		return nil, fmt.Errorf("looking at the file system of %s: %w", path, err)
	}
	const readOnly = 1 // MNT_RDONLY
	size := uint64(s.Bsize)
	return &room{total: s.Blocks * size, free: s.Bavail * size, files: s.Files, unused: s.Ffree, readOnly: s.Flags&readOnly != 0}, nil
}
