package pebble

import (
	"fmt"
	"math"
	"time"

	dto "github.com/prometheus/client_model/go"
)

// Metrics holds the database's own measurements. Counters start at 0 when the database is opened.
type Metrics struct {
	DiskBytes       uint64    // total size of all files, including obsolete ones
	WALBytes        uint64    // size of the live data in the write-ahead log
	Compactions     int64     // number of compactions
	Flushes         int64     // number of flushes of memory tables
	Level0Files     int64     // number of tables in level 0, which wait for a compaction
	FsyncLatency    Histogram // sync latency of the write-ahead log
	FreeBytes       uint64    // free space of the database's file system, in bytes; 0 if unknown
	MinFreeBytes    uint64    // free space, in bytes, below which writes are refused; 0 if unknown
	PendingErasures PendingErasures
}

// Histogram counts durations.
type Histogram struct {
	Count   uint64        // number of durations
	Sum     time.Duration // sum of all durations
	Buckets []Bucket      // in ascending order of bounds; durations above the last bound are counted only in Count
}

// Bucket counts all durations up to UpperBound. The counts of successive buckets are cumulative.
type Bucket struct {
	UpperBound time.Duration
	Count      uint64 // number of durations up to UpperBound
}

// Metrics returns the current measurements, or an error if the database is closed.
func (d *Database) Metrics() (Metrics, error) {
	if d.closed.Load() {
		return Metrics{}, fmt.Errorf("reading metrics: %w", errClosed)
	}
	m := d.engine.Metrics()
	latency := &dto.Metric{}
	if err := m.LogWriter.FsyncLatency.Write(latency); err != nil {
		return Metrics{}, fmt.Errorf("reading the sync latency: %w", err)
	}
	free, mark, err := d.space.FreeBytes()
	if err != nil {
		return Metrics{}, fmt.Errorf("reading metrics: %w", err)
	}
	erasing, err := d.erasing()
	if err != nil {
		return Metrics{}, fmt.Errorf("reading metrics: %w", err)
	}
	return Metrics{
		DiskBytes:       m.DiskSpaceUsage(),
		WALBytes:        m.WAL.Size,
		Compactions:     m.Compact.Count,
		Flushes:         m.Flush.Count,
		Level0Files:     m.Levels[0].TablesCount,
		FsyncLatency:    histogram(latency.GetHistogram()),
		FreeBytes:       free,
		MinFreeBytes:    mark,
		PendingErasures: erasing,
	}, nil
}

// histogram converts a Prometheus histogram of nanoseconds. It omits the bucket without a bound.
func histogram(h *dto.Histogram) Histogram {
	copied := Histogram{Count: h.GetSampleCount(), Sum: time.Duration(h.GetSampleSum())}
	for _, b := range h.GetBucket() {
		if math.IsInf(b.GetUpperBound(), 1) {
			continue
		}
		copied.Buckets = append(copied.Buckets, Bucket{
			UpperBound: time.Duration(b.GetUpperBound()),
			Count:      b.GetCumulativeCount(),
		})
	}
	return copied
}
