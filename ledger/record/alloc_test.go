//go:build !race

package record

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The cost of a record is held by what can be counted. Under the race detector
// sync.Pool drops what it is given now and then, so the count says nothing.
func TestAllocations(t *testing.T) {
	body := benchBodies()["typical"]
	allocations := testing.AllocsPerRun(100, func() {
		r, err := Parse(IPCRecord, body)
		if err != nil {
			t.Fatal(err)
		}
		r.Body(Event{Actor: "anonymous", Ledger: "default"})
		r.Release()
	})
	require.LessOrEqual(t, allocations, 3.0)
}
