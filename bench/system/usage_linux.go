package system

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// clockTick is the unit of processor times in /proc on Linux.
const clockTick = 10 * time.Millisecond

// Usage holds the resources that a process has used since it started.
type Usage struct {
	CPU     time.Duration // user and system time
	Peak    int64         // peak memory (VmHWM) in bytes
	Memory  int64         // current memory (VmRSS) in bytes
	Written int64         // bytes that the process caused to be written to disk
}

// UsageOf returns the resources that a process has used since it started.
func UsageOf(pid int) (Usage, error) {
	var u Usage
	folder := "/proc/" + strconv.Itoa(pid) + "/"
	fields, err := statOf(pid)
	if err != nil {
		return u, err
	}
	if u.CPU, err = cpuOf(fields[statOwn:]); err != nil {
		return u, err
	}
	memory, err := counters(folder + "status")
	if err != nil {
		return u, fmt.Errorf("reading the memory usage: %w", err)
	}
	u.Peak, u.Memory = memory["VmHWM"]<<10, memory["VmRSS"]<<10
	disk, err := counters(folder + "io")
	if err != nil {
		return u, fmt.Errorf("reading the bytes written by the process: %w", err)
	}
	u.Written = disk["write_bytes"]
	return u, nil
}

// ChildrenCPU returns the processor time that all children of a process have used, including
// children that have exited.
func ChildrenCPU(pid int) (total time.Duration, err error) {
	own, err := statOf(pid)
	if err != nil {
		return 0, err
	}
	if total, err = cpuOf(own[statEnded:]); err != nil {
		return 0, err
	}
	folders, err := os.ReadDir("/proc")
	if err != nil {
		return 0, fmt.Errorf("listing processes: %w", err)
	}
	for _, folder := range folders {
		child, err := strconv.Atoi(folder.Name())
		if err != nil {
			continue
		}
		fields, err := statOf(child)
		if err != nil { // the process has exited
			continue
		}
		if parent, err := strconv.Atoi(fields[statParent]); err != nil || parent != pid {
			continue
		}
		used, err := cpuOf(fields[statOwn:])
		if err != nil {
			return 0, err
		}
		total += used
	}
	return total, nil
}

// Indexes of fields in /proc/PID/stat. Index 0 is the field after the program name.
const (
	statParent = 1
	statOwn    = 11 // user time of the process; its system time is the next field
	statEnded  = 13 // user time of exited children; their system time is the next field
)

func statOf(pid int) ([]string, error) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return nil, fmt.Errorf("reading the processor time: %w", err)
	}
	// The name of the program, which is in parentheses, can contain spaces.
	return strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])), nil
}

// cpuOf returns the sum of the first two fields, the user and the system time.
func cpuOf(fields []string) (used time.Duration, err error) {
	for _, field := range fields[:2] {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("parsing the processor time: %w", err)
		}
		used += time.Duration(ticks) * clockTick
	}
	return used, nil
}

// ResetPeakMemory resets the recorded peak memory of a process to its current memory.
func ResetPeakMemory(pid int) error {
	if err := os.WriteFile("/proc/"+strconv.Itoa(pid)+"/clear_refs", []byte("5"), 0); err != nil {
		return fmt.Errorf("resetting the memory peak: %w", err)
	}
	return nil
}

// counters parses the lines of a file that have the form "VmHWM:   123 kB". It ignores the units.
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
