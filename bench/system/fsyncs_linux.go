package system

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// fsyncEvents maps each type of file system to the kernel tracepoint that fires when a file is
// synced: on fsync, on fdatasync, and on each write to a file that was opened with O_SYNC.
var fsyncEvents = map[string]string{
	"ext4":  "ext4/ext4_sync_file_enter",
	"xfs":   "xfs/xfs_file_fsync",
	"btrfs": "btrfs/btrfs_sync_file",
}

// fsyncCounter counts the syncs of one process with the kernel's performance counters.
type fsyncCounter struct{ counters []int }

// countFsyncs starts to count the syncs of a process. It returns nil if it cannot count them:
// tracefs is not mounted, counting requires root, or the folder's file system has no known
// tracepoint.
func countFsyncs(pid int, folder string) (*fsyncCounter, error) {
	event, ok := fsyncEvents[FilesystemType(folder)]
	if !ok {
		return nil, nil
	}
	text, err := os.ReadFile("/sys/kernel/tracing/events/" + event + "/id")
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading a tracepoint: %w", err)
	}
	id, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("parsing the ID of a tracepoint: %w", err)
	}
	c := new(fsyncCounter)
	// A counter covers one thread and the threads that this thread creates later.
	threads, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*")
	if err != nil {
		return nil, fmt.Errorf("listing threads: %w", err)
	}
	for _, thread := range threads {
		tid, err := strconv.Atoi(filepath.Base(thread))
		if err != nil {
			return nil, fmt.Errorf("parsing the ID of a thread: %w", err)
		}
		attributes := &unix.PerfEventAttr{Type: unix.PERF_TYPE_TRACEPOINT, Config: id, Bits: unix.PerfBitInherit}
		attributes.Size = uint32(unsafe.Sizeof(*attributes))
		fd, err := unix.PerfEventOpen(attributes, tid, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
		if errors.Is(err, unix.ESRCH) { // the thread has exited
			continue
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("counting syncs: %w", err), c.close())
		}
		c.counters = append(c.counters, fd)
	}
	return c, nil
}

// stop stops the count and returns the number of syncs since it started.
func (c *fsyncCounter) stop() (int64, error) {
	var total int64
	for _, fd := range c.counters {
		var value [8]byte
		if _, err := unix.Read(fd, value[:]); err != nil {
			return 0, errors.Join(fmt.Errorf("reading a count of syncs: %w", err), c.close())
		}
		total += int64(binary.NativeEndian.Uint64(value[:]))
	}
	return total, c.close()
}

func (c *fsyncCounter) close() error {
	var errs []error
	for _, fd := range c.counters {
		errs = append(errs, unix.Close(fd))
	}
	return errors.Join(errs...)
}
