// Package openfiles checks whether a server's process is allowed to open as many files as the
// server may need at the same time.
package openfiles

import (
	"log/slog"

	"colophon/api/limits"
)

// MaxBaseFiles is the maximum number of files that a server opens, not counting connections and the
// temporary files of batches. It allows for two databases with 2,048 and 512 tables, their logs,
// and a few other files.
const MaxBaseFiles = 2750

// MaxOpen returns the maximum number of files and connections that a server opens.
func MaxOpen(load limits.ServerLimits) uint64 {
	return uint64(limits.MaxOpenConnections(load) + load.MaxBatches + MaxBaseFiles)
}

// WarnIfLimitLow logs a warning if the process is not allowed to open as many files as its
// connections and databases may need.
func WarnIfLimitLow(load limits.ServerLimits, log *slog.Logger) {
	need := MaxOpen(load)
	if limit, known := Limit(); known && limit < need {
		log.Warn("the open file limit is lower than the server may need: raise the limit (ulimit -n, or LimitNOFILE= in systemd), or lower --max-connections",
			"limit", limit, "needed", need, "max_connections", load.MaxConnections)
	}
}
