package main

import (
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"

	"golang.org/x/sys/windows"
)

// lookAtMachine knows little of Windows.
func lookAtMachine(int) machine {
	return machine{goMemory: debug.SetMemoryLimit(-1), surroundings: containerHint(`C:\`, os.LookupEnv)}
}

func ownerOf(fs.FileInfo) (user int, known bool) { return 0, false }

// sameDevice takes a data folder to be in one place.
func sameDevice(string, string) bool { return true }

func lockHolder(string) holder { return holder{} }

func mountOf(string) (kind, options string) { return "", "" }

// roomOf is the room of the volume that a path is on.
func roomOf(path string) (*room, error) {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return nil, err
	}
	var r room
	if err := windows.GetDiskFreeSpaceEx(name, &r.free, &r.total, nil); err != nil {
		return nil, fmt.Errorf("looking at the volume of %s: %w", path, err)
	}
	return &r, nil
}
