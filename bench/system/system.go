// Package system measures how much contestants use of the machine, and how fast its disk is.
package system

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Use holds what a process used between two points in time.
type Use struct {
	CPU     time.Duration // user and system
	Peak    int64         // peak memory (VmHWM) in bytes, since the start of the process or ForgetPeak
	Written int64         // bytes caused to be written to disk
	Fsyncs  int64         // files synced, by any call; -1 if that cannot be counted
}

// Meter measures what a process uses. It belongs to one goroutine.
type Meter struct {
	pid    int
	before Usage
	fsyncs *fsyncCounter // nil if they cannot be counted
}

// Watch starts to measure a process that writes into a folder. Stop must be called once.
func Watch(pid int, folder string) (*Meter, error) {
	m := &Meter{pid: pid}
	var err error
	if m.fsyncs, err = countFsyncs(pid, folder); err != nil {
		return nil, err
	}
	if m.before, err = UsageOf(pid); err != nil {
		return nil, err
	}
	return m, nil
}

// Stop returns what the process used since Watch.
func (m *Meter) Stop() (Use, error) {
	after, err := UsageOf(m.pid)
	if err != nil {
		return Use{}, err
	}
	use := Use{CPU: after.CPU - m.before.CPU, Peak: after.Peak, Written: after.Written - m.before.Written, Fsyncs: -1}
	if m.fsyncs != nil {
		use.Fsyncs, err = m.fsyncs.stop()
	}
	return use, err
}

// DiskBytes returns the space that the files in a folder take on its disk.
func DiskBytes(folder string) (int64, error) {
	var total int64
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return skipGone(err)
		}
		info, err := entry.Info()
		if err != nil {
			return skipGone(err)
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); ok {
			const block = 512 // bytes, on every file system
			total += stat.Blocks * block
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("measuring %s: %w", folder, err)
	}
	return total, nil
}

// skipGone lets a store delete its files while they are counted.
func skipGone(err error) error {
	if os.IsNotExist(err) {
		return nil
	}
	return err
}
