package enginelog

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOneMessagePerInterval(t *testing.T) {
	var l limiter
	at := time.Unix(0, 0)
	for _, c := range []struct {
		after   time.Duration
		ok      bool
		skipped int
	}{{0, true, 0}, {0, false, 0}, {interval - 1, false, 0}, {1, true, 2}, {interval, true, 0}} {
		at = at.Add(c.after)
		ok, skipped := l.pass(at)
		require.Equal(t, c.ok, ok)
		require.Equal(t, c.skipped, skipped)
	}
}
