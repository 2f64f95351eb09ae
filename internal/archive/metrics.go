package archive

import "github.com/prometheus/client_golang/prometheus"

var archiveReads = prometheus.NewDesc("colophon_archive_reads_total", "Bundles and tiles that were read from the archive, by result.", []string{"result"}, nil)

// Describe implements prometheus.Collector.
func (d *Database) Describe(ch chan<- *prometheus.Desc) { ch <- archiveReads }

// Collect implements prometheus.Collector.
func (d *Database) Collect(ch chan<- prometheus.Metric) {
	for result, n := range map[string]uint64{"cached": d.hits.Load(), "fetched": d.fetches.Load(), "failed": d.failures.Load()} {
		ch <- prometheus.MustNewConstMetric(archiveReads, prometheus.CounterValue, float64(n), result)
	}
}
