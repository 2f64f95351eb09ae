package system

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// clockTick is the unit of CPU times in /proc on Linux.
const clockTick = 10 * time.Millisecond

// Usage is what a process has used since it began.
type Usage struct {
	CPU     time.Duration // user and system
	Peak    int64         // peak memory (VmHWM) in bytes
	Memory  int64         // current memory (VmRSS) in bytes
	Written int64         // bytes caused to be written to disk
}

// UsageOf reads the usage of a process.
func UsageOf(pid int) (Usage, error) {
	var u Usage
	folder := "/proc/" + strconv.Itoa(pid) + "/"
	stat, err := os.ReadFile(folder + "stat")
	if err != nil {
		return u, fmt.Errorf("reading the use of processor time: %w", err)
	}
	// The name of the program, in parentheses, can contain spaces.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	const user, kernel = 11, 12
	for _, field := range fields[user : kernel+1] {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return u, fmt.Errorf("parsing the use of processor time: %w", err)
		}
		u.CPU += time.Duration(ticks) * clockTick
	}
	memory, err := counters(folder + "status")
	if err != nil {
		return u, fmt.Errorf("reading the use of memory: %w", err)
	}
	u.Peak, u.Memory = memory["VmHWM"]<<10, memory["VmRSS"]<<10
	disk, err := counters(folder + "io")
	if err != nil {
		return u, fmt.Errorf("reading the bytes written by the process: %w", err)
	}
	u.Written = disk["write_bytes"]
	return u, nil
}

// ForgetPeak resets the recorded peak of a process's memory to its current memory.
func ForgetPeak(pid int) error {
	if err := os.WriteFile("/proc/"+strconv.Itoa(pid)+"/clear_refs", []byte("5"), 0); err != nil {
		return fmt.Errorf("resetting the peak of memory: %w", err)
	}
	return nil
}

// counters reads lines like "VmHWM:   123 kB" from a file.
func counters(file string) (map[string]int64, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	found := make(map[string]int64)
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		value, _, _ = strings.Cut(strings.TrimSpace(value), " ")
		if n, err := strconv.ParseInt(value, 10, 64); err == nil {
			found[name] = n
		}
	}
	return found, nil
}
