// Package system measures the resources of the machine that contestants use, and the speed of its
// disk.
package system

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// UsageDelta holds the resources that a process used between two points in time.
type UsageDelta struct {
	CPU     time.Duration // user and system time
	Peak    int64         // peak memory (VmHWM) in bytes since the process started or ResetPeakMemory was called
	Written int64         // bytes that the process caused to be written to disk
	Fsyncs  int64         // number of file syncs by any system call; -1 if they cannot be counted
}

// Meter measures the resources that a process uses. Only one goroutine may use it.
type Meter struct {
	pid    int
	before Usage
	fsyncs *fsyncCounter // nil if syncs cannot be counted
}

// StartMeter starts to measure a process that writes to files in folder. The caller must call Stop once.
func StartMeter(pid int, folder string) (*Meter, error) {
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

// Stop returns the resources that the process has used since StartMeter.
func (m *Meter) Stop() (UsageDelta, error) {
	after, err := UsageOf(m.pid)
	if err != nil {
		return UsageDelta{}, err
	}
	use := UsageDelta{CPU: after.CPU - m.before.CPU, Peak: after.Peak, Written: after.Written - m.before.Written, Fsyncs: -1}
	if m.fsyncs != nil {
		use.Fsyncs, err = m.fsyncs.stop()
	}
	return use, err
}

// DiskBytes returns how much disk space the files in a folder occupy.
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
			const block = 512 // bytes per unit of stat.Blocks, on every file system
			total += stat.Blocks * block
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("measuring %s: %w", folder, err)
	}
	return total, nil
}

// skipGone returns nil for a file that no longer exists, because a store can delete files while
// they are counted.
func skipGone(err error) error {
	if os.IsNotExist(err) {
		return nil
	}
	return err
}
