package system

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"
)

// DiskLatency states how long the disk takes to append 4 KiB to a file and sync the file.
type DiskLatency struct {
	P50 time.Duration `json:"p50_ns"`
	P99 time.Duration `json:"p99_ns"`
}

// ProbeDisk measures the latency of the given number of writes and syncs in a folder.
func ProbeDisk(folder string, syncs int) (p DiskLatency, err error) {
	file, err := os.CreateTemp(folder, "probe")
	if err != nil {
		return p, fmt.Errorf("probing the disk: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close(), os.Remove(file.Name())) }()
	block, times := make([]byte, 4096), make([]time.Duration, syncs)
	for i := range times {
		begin := time.Now()
		if _, err := file.Write(block); err != nil {
			return p, fmt.Errorf("probing the disk: %w", err)
		}
		if err := file.Sync(); err != nil {
			return p, fmt.Errorf("probing the disk: %w", err)
		}
		times[i] = time.Since(begin)
	}
	slices.Sort(times)
	return DiskLatency{P50: times[syncs/2], P99: times[syncs*99/100]}, nil
}
