package openfiles

import (
	"bytes"
	"log/slog"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/api/limits"
)

func TestWarningOfTooFewOpenFiles(t *testing.T) {
	limit, known := Limit()
	if !known {
		t.Skip("this system has no such limit")
	}
	var log bytes.Buffer
	c := limits.ServerLimits{MaxConnections: 1}.WithDefaults()
	if MaxOpen(c) <= limit {
		WarnIfLimitLow(c, slog.New(slog.NewTextHandler(&log, nil)))
		require.Empty(t, log.String())
	}
	c.MaxConnections = int(min(limit, math.MaxInt32))
	WarnIfLimitLow(c, slog.New(slog.NewTextHandler(&log, nil)))
	require.Contains(t, log.String(), "raise the limit (ulimit -n")
}
