package quiet

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOneMessageAnInterval(t *testing.T) {
	var l Limiter
	at := time.Unix(0, 0)
	for _, c := range []struct {
		after   time.Duration
		ok      bool
		skipped int
	}{{0, true, 0}, {0, false, 0}, {Interval - 1, false, 0}, {1, true, 2}, {Interval, true, 0}} {
		at = at.Add(c.after)
		ok, skipped := l.Pass(at)
		require.Equal(t, c.ok, ok)
		require.Equal(t, c.skipped, skipped)
	}
}
