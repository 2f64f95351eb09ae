package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"

	"colophon/internal/server"
)

// lookAtMachine asks Linux. pid is the server's process, 0 if there is none.
func lookAtMachine(pid int) machine {
	m := machine{goMemory: debug.SetMemoryLimit(-1), surroundings: containerHint("/", os.LookupEnv)}
	m.openFiles, _ = server.OpenFileLimit()
	process := "/proc/self"
	if limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pid)); pid > 0 && err == nil {
		process = fmt.Sprintf("/proc/%d", pid)
		m.openFiles = softLimit(string(limits), "Max open files")
		m.process = lookAtProcess(process)
		m.goMemory = goMemoryLimit(m.process.variables)
		if m.process.variables == nil {
			m.goMemory = 0
		}
	}
	if info := new(syscall.Sysinfo_t); syscall.Sysinfo(info) == nil {
		m.memory = uint64(info.Totalram) * uint64(info.Unit)
	}
	if groups, err := os.ReadFile(process + "/cgroup"); err == nil {
		m.memoryLimit = groupMemory("/sys/fs/cgroup", string(groups))
	}
	const unsynchronised = 0x40 // STA_UNSYNC
	var clock syscall.Timex
	_, err := syscall.Adjtimex(&clock)
	m.clockAdrift = err == nil && clock.Status&unsynchronised != 0
	return m
}

// lookAtProcess is what the folder of a process shows to this one.
func lookAtProcess(folder string) *serverProcessInfo {
	var p serverProcessInfo
	if info, err := os.Stat(folder); err == nil {
		if user, known := ownerOf(info); known {
			p.user = &user
		}
	}
	split := func(file string) []string {
		text, err := os.ReadFile(filepath.Join(folder, file))
		if err != nil {
			return nil
		}
		return strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
	}
	p.arguments, p.variables = split("cmdline"), split("environ")
	p.dir, _ = os.Readlink(filepath.Join(folder, "cwd")) // empty if it may not be seen
	return &p
}

// softLimit is a soft limit in the text of a process's limits; 0 if it is not there.
func softLimit(limits, name string) uint64 {
	for line := range strings.Lines(limits) {
		rest, ok := strings.CutPrefix(line, name)
		if fields := strings.Fields(rest); ok && len(fields) > 0 {
			if fields[0] == "unlimited" {
				return math.MaxUint64
			}
			n, err := strconv.ParseUint(fields[0], 10, 64)
			if err == nil {
				return n
			}
		}
	}
	return 0
}

// groupMemory is the least memory limit of a control group and of those around it, of
// version 2, below a mount point; 0 if there is none. groups is as the process has it.
func groupMemory(mount, groups string) (least uint64) {
	for line := range strings.Lines(groups) {
		path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::")
		if !ok {
			continue
		}
		for ; ; path = filepath.Dir(path) {
			text, err := os.ReadFile(filepath.Join(mount, path, "memory.max"))
			if limit, parseErr := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64); err == nil && parseErr == nil && (least == 0 || limit < least) {
				least = limit
			}
			if path == "/" || path == "." {
				break
			}
		}
	}
	return least
}

// mountOf is the kind of file system that a path is on, and the options of its mount.
func mountOf(path string) (kind, options string) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", ""
	}
	return findMount(string(mounts), path)
}

// roomOf is the room of the file system that a path is on.
func roomOf(path string) (*room, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(path, &s); err != nil {
		return nil, fmt.Errorf("looking at the file system of %s: %w", path, err)
	}
	const readOnly = 1 // ST_RDONLY
	size := uint64(s.Frsize)
	return &room{total: s.Blocks * size, free: s.Bavail * size, files: s.Files, unused: s.Ffree, readOnly: s.Flags&readOnly != 0}, nil
}
