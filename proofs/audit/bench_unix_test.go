//go:build unix

package audit

import (
	"context"
	"crypto/sha256"
	"fmt"
	"iter"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/ledger/record"
	"colophon/proofs"
)

// bundled is a log in the form in which a server publishes it, with tiles and entry bundles.
type bundled struct {
	head    Head
	tiles   map[tileID][]byte
	bundles [][]byte
}

func (b *bundled) Head(context.Context) (Head, error) { return b.head, nil }

func (b *bundled) Tile(_ context.Context, level uint8, index uint64) ([]byte, error) {
	return b.tiles[tileID{level, index}], nil
}

func (b *bundled) Entries(_ context.Context, from uint64) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for i := from / proofs.FullTileWidth; i < uint64(len(b.bundles)); i++ {
			entries, err := proofs.ParseBundle(b.bundles[i])
			if err != nil {
				yield(nil, err)
				return
			}
			for j, entry := range entries {
				if i*proofs.FullTileWidth+uint64(j) >= from && !yield(entry, nil) {
					return
				}
			}
		}
	}
}

// typical returns a log of the given size whose records resemble those of real services.
func typical(b *testing.B, size int) *memory {
	m := newMemory(b, 1)
	for seq := 1; seq < size; seq++ {
		r, err := ledgerLimits.ParseRecord(record.KindIPCRecord, fmt.Appendf(nil, `{"run_id":"run-%08d","payload":{"prompt":"p%d","seed":42},"system_prompt":"You are a storyteller.",
			"output":"Text %d.","output_hash":"%064x","model":"claude-2.1","temperature":0.7,"max_tokens":1024,"labels":{"step":"dialogue","story":"harrow-vale"},
			"timestamp":"2026-01-02T03:04:05Z","usage":{"input_tokens":100,"output_tokens":%d}}`, seq, seq, seq%7, seq, seq))
		require.NoError(b, err)
		key := testKey(uint64(seq))
		m.add(r.AppendBodyPrefix(nil, record.EventContext{Actor: "lab", Ledger: "default", IdempotencyKeyDigest: &key}))
		r.Release()
	}
	m.head.Size = uint64(size)
	m.seal(b)
	return m
}

func bundle(b *testing.B, m *memory) *bundled {
	log := &bundled{head: Head{Size: m.head.Size, Checkpoint: m.head.Checkpoint}, tiles: m.tiles, bundles: make([][]byte, (len(m.entries)+proofs.FullTileWidth-1)/proofs.FullTileWidth)}
	for i, entry := range m.entries {
		var err error
		log.bundles[i/proofs.FullTileWidth], err = proofs.AppendBundleEntry(log.bundles[i/proofs.FullTileWidth], entry)
		require.NoError(b, err)
	}
	return log
}

// processorTime returns the CPU time that this process has used so far, including the time spent on
// garbage collection.
func processorTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// hashOnly does only the hashing that every auditor has to do: it hashes each entry for the chain and
// as a leaf of the tree, and hashes the tree's nodes.
func hashOnly(entries [][]byte) (tip, root proofs.Hash) {
	level := make([]proofs.Hash, len(entries))
	leaf := make([]byte, 0, 1<<16)
	for i, entry := range entries {
		tip = sha256.Sum256(entry)
		leaf = append(append(leaf[:0], 0), entry...)
		level[i] = sha256.Sum256(leaf)
	}
	for len(level) > 1 {
		pairs := len(level) / 2
		for i := range pairs {
			level[i] = proofs.NodeHash(level[2*i], level[2*i+1])
		}
		if len(level)%2 == 1 {
			level[pairs] = level[2*pairs]
			pairs++
		}
		level = level[:pairs]
	}
	return tip, level[0]
}

// BenchmarkExtend alternates between a walk and the SHA-256 work that a walk cannot avoid, and
// reports the ratio of the two CPU times.
func BenchmarkExtend(b *testing.B) {
	const size = 20_000
	m := typical(b, size)
	log, bytes := bundle(b, m), 0
	for _, entry := range m.entries {
		bytes += len(entry)
	}
	options := Options{Verifiers: []*proofs.Verifier{m.signer.Verifier()}}
	var walking, hashing time.Duration
	for b.Loop() {
		begin := processorTime(b)
		report, position, err := ExtendWalk(b.Context(), log, options, ExtendOptions{History: newMemoryHistory()})
		walked := processorTime(b)
		require.NoError(b, err)
		require.Nil(b, report.Damage)
		tip, root := hashOnly(m.entries)
		hashed := processorTime(b)
		require.Equal(b, position.Tip, tip)
		require.Equal(b, position.Root, root)
		walking, hashing = walking+walked-begin, hashing+hashed-walked
	}
	b.ReportMetric(float64(walking)/float64(hashing), "times-bare-SHA256")
	b.ReportMetric(float64(walking.Nanoseconds())/float64(b.N)/size, "cpu-ns/entry")
	b.ReportMetric(float64(hashing.Nanoseconds())/float64(b.N)/size, "bare-cpu-ns/entry")
	b.ReportMetric(float64(bytes)/size, "bytes/entry")
}
