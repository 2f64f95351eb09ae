package main

import (
	"log/slog"

	"colophon/api"
)

// otherFiles is how many files a server opens at the most beside connections and
// what batches spool: two databases with 2,048 and 512 tables, their logs, and some more.
const otherFiles = 2750

// filesNeeded is how many files and connections a server may have open.
func filesNeeded(c loadConfig) uint64 {
	return uint64(api.MaxOpen(c.limits()) + c.MaxBatches + otherFiles)
}

// checkOpenFiles warns where connections would fail for want of file descriptors
// before the bound on them is met: so would the databases.
func checkOpenFiles(c loadConfig, log *slog.Logger) {
	need := filesNeeded(c)
	if limit, known := openFileLimit(); known && limit < need {
		log.Warn("this process may open fewer files than the server may need: allow more (ulimit -n, or LimitNOFILE= of systemd), or lower --max-connections",
			"limit", limit, "needed", need, "max_connections", c.MaxConnections)
	}
}
