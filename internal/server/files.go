package server

import (
	"log/slog"

	"colophon/api/limits"
)

// OtherFiles is the largest number of files that a server opens beside connections and the
// spools of batches: two databases with 2,048 and 512 tables, their logs, and a few more.
const OtherFiles = 2750

// FilesNeeded is the largest number of files and connections that a server opens.
func FilesNeeded(load limits.Load) uint64 {
	return uint64(limits.MaxOpen(load) + load.Batches + OtherFiles)
}

// checkOpenFiles warns if the process may open fewer files than its connections and databases
// may need.
func checkOpenFiles(load limits.Load, log *slog.Logger) {
	need := FilesNeeded(load)
	if limit, known := OpenFileLimit(); known && limit < need {
		log.Warn("this process may open fewer files than the server may need: allow more (ulimit -n, or LimitNOFILE= of systemd), or lower --max-connections",
			"limit", limit, "needed", need, "max_connections", load.Connections)
	}
}
