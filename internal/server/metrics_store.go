package server

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"colophon/storage/postgres"
)

// Metrics of a PostgreSQL database (docs/servers.md).
var (
	unanswered      = prometheus.NewDesc("colophon_storage_unanswered_writes_total", "Writes whose outcome the database did not confirm at first, so that the server had to look up the outcome.", nil, nil)
	connections     = prometheus.NewDesc("colophon_storage_connections", "Connections to the database in use.", []string{"pool"}, nil)
	connectionsMost = prometheus.NewDesc("colophon_storage_connections_limit", "Maximum number of connections to the database.", []string{"pool"}, nil)
	connectionsWait = prometheus.NewDesc("colophon_storage_connection_wait_seconds_total", "Total time that operations have waited for a connection to the database.", []string{"pool"}, nil)
)

// measureEvery is the minimum time between two measurements of the size of the tables.
const measureEvery = time.Minute

// databaseCollector exports metrics of a PostgreSQL database.
type databaseCollector struct {
	database *postgres.Database
	log      *slog.Logger

	mu       sync.Mutex // guards the fields below
	measured time.Time  // zero if the size has never been measured
	bytes    int64
	err      error
}

// Describe implements prometheus.Collector.
func (d *databaseCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{unanswered, connections, connectionsMost, connectionsWait, storageDisk} {
		ch <- desc
	}
}

// Collect implements prometheus.Collector.
func (d *databaseCollector) Collect(ch chan<- prometheus.Metric) {
	m := d.database.Metrics()
	ch <- prometheus.MustNewConstMetric(unanswered, prometheus.CounterValue, float64(m.UnansweredWrites))
	for name, pool := range map[string]postgres.PoolMetrics{"read": m.ReadPool, "write": m.WritePool} {
		ch <- prometheus.MustNewConstMetric(connections, prometheus.GaugeValue, float64(pool.ConnsInUse), name)
		ch <- prometheus.MustNewConstMetric(connectionsMost, prometheus.GaugeValue, float64(pool.MaxConns), name)
		ch <- prometheus.MustNewConstMetric(connectionsWait, prometheus.CounterValue, pool.WaitTime.Seconds(), name)
	}
	if bytes, err := d.size(); err == nil {
		ch <- prometheus.MustNewConstMetric(storageDisk, prometheus.GaugeValue, float64(bytes))
	}
}

// size returns the size of the tables in bytes, measured at most measureEvery ago. If several
// measurements fail in a row, it logs only the first error.
func (d *databaseCollector) size() (int64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.measured.IsZero() && time.Since(d.measured) < measureEvery {
		return d.bytes, d.err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	before := d.err
	d.bytes, d.err = d.database.DiskBytes(ctx)
	d.measured = time.Now()
	if d.err != nil && before == nil {
		d.log.Warn("cannot read the database size; the metric is not reported", "error", d.err)
	}
	return d.bytes, d.err
}
