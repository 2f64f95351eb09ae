package server

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"colophon/storage/pebble"
)

// Metrics of the storage engine (spec: Metrics derived from the log).
var (
	storageDisk        = prometheus.NewDesc("colophon_storage_disk_bytes", "Size of all files of the ledgers' database.", nil, nil)
	storageLog         = prometheus.NewDesc("colophon_storage_wal_bytes", "Live data in the write-ahead log of the ledgers' database.", nil, nil)
	storageCompactions = prometheus.NewDesc("colophon_storage_compactions_total", "Compactions of the ledgers' database.", nil, nil)
	storageFlushes     = prometheus.NewDesc("colophon_storage_flushes_total", "Memory tables that the ledgers' database has flushed.", nil, nil)
	storageLevel0      = prometheus.NewDesc("colophon_storage_level0_files", "Files of the ledgers' database in level 0, which wait to be merged into lower levels.", nil, nil)
	storageFree        = prometheus.NewDesc("colophon_storage_free_bytes", "Free space of the file system that the ledgers' database is on.", nil, nil)
	storageMark        = prometheus.NewDesc("colophon_storage_free_mark_bytes", "Free space below which the ledgers' database accepts no writes.", nil, nil)
	erasures           = prometheus.NewDesc("colophon_erasures_pending", "Pieces of erased content that may still be in files of the ledgers' database.", nil, nil)
	erasuresAge        = prometheus.NewDesc("colophon_erasures_pending_age_seconds", "Age of the oldest pending erasure, 0 while there is none.", nil, nil)
	storageFsync       = prometheus.NewDesc("colophon_storage_fsync_duration_seconds", "Duration of a sync of the write-ahead log.", nil, nil)
)

// storageCollector exports metrics of the database in the data folder.
type storageCollector struct {
	database *pebble.Database
	log      *slog.Logger
}

// Describe implements prometheus.Collector.
func (s storageCollector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(s, ch) }

// Collect implements prometheus.Collector.
func (s storageCollector) Collect(ch chan<- prometheus.Metric) {
	m, err := s.database.Metrics()
	if err != nil {
		s.log.Warn("storage metrics are not available", "error", err)
		return
	}
	ch <- prometheus.MustNewConstMetric(storageDisk, prometheus.GaugeValue, float64(m.DiskBytes))
	ch <- prometheus.MustNewConstMetric(storageLog, prometheus.GaugeValue, float64(m.WALBytes))
	ch <- prometheus.MustNewConstMetric(storageCompactions, prometheus.CounterValue, float64(m.Compactions))
	ch <- prometheus.MustNewConstMetric(storageFlushes, prometheus.CounterValue, float64(m.Flushes))
	ch <- prometheus.MustNewConstMetric(storageLevel0, prometheus.GaugeValue, float64(m.Level0Files))
	if m.MinFreeBytes > 0 {
		ch <- prometheus.MustNewConstMetric(storageFree, prometheus.GaugeValue, float64(m.FreeBytes))
		ch <- prometheus.MustNewConstMetric(storageMark, prometheus.GaugeValue, float64(m.MinFreeBytes))
	}
	var age time.Duration
	if m.PendingErasures.Count > 0 {
		age = max(0, time.Since(m.PendingErasures.OldestTime)) // negative if the clock was set back
	}
	ch <- prometheus.MustNewConstMetric(erasures, prometheus.GaugeValue, float64(m.PendingErasures.Count))
	ch <- prometheus.MustNewConstMetric(erasuresAge, prometheus.GaugeValue, age.Seconds())
	ch <- prometheus.MustNewConstHistogram(storageFsync, m.FsyncLatency.Count, m.FsyncLatency.Sum.Seconds(), sparse(m.FsyncLatency.Buckets))
}

// sparse keeps only some of the roughly one hundred buckets of the database's histogram. The bound
// of each remaining bucket is at least 1.5 times the bound of the previous one.
func sparse(buckets []pebble.Bucket) map[float64]uint64 {
	kept := make(map[float64]uint64)
	var last time.Duration
	for _, b := range buckets {
		if b.UpperBound > 0 && 2*b.UpperBound >= 3*last {
			kept[b.UpperBound.Seconds()] = b.Count
			last = b.UpperBound
		}
	}
	return kept
}
