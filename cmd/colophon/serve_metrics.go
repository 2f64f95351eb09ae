package main

import (
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"colophon/storage/pebble"
)

// The storage engine's part of the process's metrics (4.5).
var (
	storageDisk        = prometheus.NewDesc("colophon_storage_disk_bytes", "Size of all files of the ledgers' database.", nil, nil)
	storageLog         = prometheus.NewDesc("colophon_storage_wal_bytes", "Live data in the write-ahead log of the ledgers' database.", nil, nil)
	storageCompactions = prometheus.NewDesc("colophon_storage_compactions_total", "Compactions of the ledgers' database.", nil, nil)
	storageFlushes     = prometheus.NewDesc("colophon_storage_flushes_total", "Memory tables written out by the ledgers' database.", nil, nil)
	storageLevel0      = prometheus.NewDesc("colophon_storage_level0_files", "Files of the ledgers' database that wait to be merged downwards.", nil, nil)
	storageFsync       = prometheus.NewDesc("colophon_storage_fsync_duration_seconds", "Time of a sync of the write-ahead log.", nil, nil)
)

// storageCollector reads what the database says about itself.
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
		s.log.Warn("no metrics of the storage", "error", err)
		return
	}
	ch <- prometheus.MustNewConstMetric(storageDisk, prometheus.GaugeValue, float64(m.DiskBytes))
	ch <- prometheus.MustNewConstMetric(storageLog, prometheus.GaugeValue, float64(m.WALBytes))
	ch <- prometheus.MustNewConstMetric(storageCompactions, prometheus.CounterValue, float64(m.Compactions))
	ch <- prometheus.MustNewConstMetric(storageFlushes, prometheus.CounterValue, float64(m.Flushes))
	ch <- prometheus.MustNewConstMetric(storageLevel0, prometheus.GaugeValue, float64(m.Level0Files))
	buckets := make(map[float64]uint64, len(m.FsyncLatency.Buckets))
	for _, b := range m.FsyncLatency.Buckets {
		buckets[b.UpperBound.Seconds()] = b.Count
	}
	ch <- prometheus.MustNewConstHistogram(storageFsync, m.FsyncLatency.Count, m.FsyncLatency.Sum.Seconds(), buckets)
}
