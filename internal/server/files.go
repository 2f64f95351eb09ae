package server

import (
	"log/slog"

	"colophon/api"
)

// OtherFiles is how many files a server opens at the most beside connections and
// what batches spool: two databases with 2,048 and 512 tables, their logs, and some more.
const OtherFiles = 2750

// FilesNeeded is how many files and connections a server may have open.
func FilesNeeded(c LoadConfig) uint64 {
	return uint64(api.MaxOpen(c.limits()) + c.MaxBatches + OtherFiles)
}

// checkOpenFiles warns where connections would fail for want of file descriptors
// before the bound on them is met: so would the databases.
func checkOpenFiles(c LoadConfig, log *slog.Logger) {
	need := FilesNeeded(c)
	if limit, known := OpenFileLimit(); known && limit < need {
		log.Warn("this process may open fewer files than the server may need: allow more (ulimit -n, or LimitNOFILE= of systemd), or lower --max-connections",
			"limit", limit, "needed", need, "max_connections", c.MaxConnections)
	}
}
