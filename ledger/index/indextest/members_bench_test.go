package indextest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger/record"
)

// BenchmarkFoldMembers folds records whose payload members have different numbers of distinct
// values. It runs once with events that contain digests of the members and once with events that do
// not.
func BenchmarkFoldMembers(b *testing.B) {
	const events = 200_000
	for _, digests := range []bool{false, true} {
		b.Run(fmt.Sprintf("digests=%t", digests), func(b *testing.B) {
			limits := ledgerLimits
			if !digests {
				limits = record.DefaultLimits()
			}
			log := newJournal(b, "default")
			log.forgetful = true
			for n := 0; n < events; n += 1000 {
				var bodies []string
				for i := n; i < n+1000; i++ {
					r, err := limits.ParseRecord(record.KindIPCRecord, fmt.Appendf(nil, `{"run_id":"run-%d","payload":{"instruction":"why %d?","dataset":"d","world":"w%d",
						"axes":{"tone":%d,"style":%d},"seed":%d},"system_prompt":"Be kind %d.","output":"because %d","model":"m%d","temperature":0.%d,"max_tokens":2048}`,
						i, i, i%64, i*7%101, i*11%97, i, i%12, i, i%5, i%7))
					require.NoError(b, err)
					bodies = append(bodies, string(r.AppendBodyPrefix(nil, poster)))
					r.Release()
				}
				log.append(bodies...)
			}
			benchmarkFold(b, log, events)
		})
	}
}
