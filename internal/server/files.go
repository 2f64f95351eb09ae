package server

import (
	"log/slog"

	"colophon/api/limits"
)

// OtherFiles is the maximum number of files that a server opens apart from connections and the
// spools of batches: two databases with 2,048 and 512 tables, their logs, and a few more.
const OtherFiles = 2750

// FilesNeeded returns the maximum number of files and connections that a server opens.
func FilesNeeded(load limits.Load) uint64 {
	return uint64(limits.MaxOpen(load) + load.Batches + OtherFiles)
}

// checkOpenFiles warns if the process is not allowed to open as many files as its connections
// and databases can need.
func checkOpenFiles(load limits.Load, log *slog.Logger) {
	need := FilesNeeded(load)
	if limit, known := OpenFileLimit(); known && limit < need {
		log.Warn("the limit of open files is lower than what the server might need: raise it (ulimit -n, or LimitNOFILE= of systemd), or lower --max-connections",
			"limit", limit, "needed", need, "max_connections", load.Connections)
	}
}
