package pebble

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/storage"
)

// prose returns pseudo-random text, of the given length in bytes, that compresses about as well as
// prompts and outputs do.
func prose(bytes int) []byte {
	dice := rand.New(rand.NewPCG(1, 2))
	words := make([]string, 4000)
	for i := range words {
		word := make([]byte, 2+dice.IntN(9))
		for j := range word {
			word[j] = 'a' + byte(dice.IntN(26))
		}
		words[i] = string(word)
	}
	var text []byte
	for len(text) < bytes {
		text = append(append(text, words[int(float64(len(words))*dice.Float64()*dice.Float64())]...), ' ')
	}
	return text[:bytes]
}

// Sizes of the parts of a benchmark record, in bytes.
const (
	benchEntry  = 1100
	benchText   = 500 // length of the record's payload, and also of its output
	benchPrompt = 200 // length of the system prompt, which all records share
	benchRecord = benchEntry + 2*benchText
)

// benchmarkBatch returns a batch that extends old by n records, with the tiles at the right edge of
// the tree. Each record has an entry, two unique texts, a system prompt that all records share, and
// an idempotency key.
func benchmarkBatch(old storage.Head, n int, text []byte) storage.Batch {
	b := storage.Batch{Head: storage.Head{Size: old.Size + uint64(n), Checkpoint: text[:300]}}
	cut := func(seq uint64, bytes int) []byte {
		at := seq * 7919 % uint64(len(text)-bytes)
		return text[at : at+uint64(bytes)]
	}
	for i := range n {
		seq := old.Size + uint64(i)
		entry := binary.BigEndian.AppendUint64(nil, seq)
		b.Entries = append(b.Entries, append(entry, cut(seq, benchEntry-len(entry))...))
		digest := digestOf(seq)
		b.Contents = append(b.Contents,
			storage.Content{Digest: digest, Seq: seq, Bytes: cut(seq, benchText)},
			storage.Content{Digest: digestOf(1 << 60), Seq: seq, Slot: 1, Bytes: text[:benchPrompt]},
			storage.Content{Digest: digestOf(1<<62 + seq), Seq: seq, Slot: 2, Bytes: cut(^seq, benchText)})
		b.Claims = append(b.Claims, storage.Claim{KeyDigest: digestOf(^seq), RecordDigest: digest, Seq: seq})
	}
	for index := old.Size / storage.HashesPerTile; index <= (b.Head.Size-1)/storage.HashesPerTile; index++ {
		hashes := min(b.Head.Size-index*storage.HashesPerTile, storage.HashesPerTile)
		b.Tiles = append(b.Tiles, storage.Tile{Index: index, Hashes: text[:hashes*storage.HashSize]})
	}
	b.Head.Tip = digestOf(b.Head.Size)
	return b
}

// BenchmarkCommit measures commits of several sizes to a real disk, including the syncs.
func BenchmarkCommit(b *testing.B) {
	text := prose(1 << 20)
	for _, n := range []int{1, 64, 256, 1024} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			db, err := Open(b.Context(), Config{Dir: b.TempDir(), Logger: silent()})
			require.NoError(b, err)
			store, err := db.CreateLedger(b.Context(), storage.LedgerInfo{Name: "default"})
			require.NoError(b, err)
			var head storage.Head
			for b.Loop() {
				b.StopTimer()
				next := benchmarkBatch(head, n, text)
				b.StartTimer()
				if err := store.Commit(b.Context(), head, next); err != nil {
					b.Fatal(err)
				}
				head = next.Head
			}
			b.StopTimer()
			b.ReportMetric(float64(head.Size)/b.Elapsed().Seconds(), "entries/s")
			require.NoError(b, db.Close())
		})
	}
}

// BenchmarkGrowth measures the storage cost of records in a database that grows to b.N records, in
// commits of 64. Run it with -benchtime=1000000x. It reports two metrics per committed byte.
// written/byte counts the bytes that the engine wrote to tables and value files. disk/byte is the
// final size of the folder.
func BenchmarkGrowth(b *testing.B) {
	const commit = 64
	text := prose(8 << 20)
	db, err := Open(b.Context(), Config{Dir: b.TempDir(), Logger: silent()})
	require.NoError(b, err)
	store, err := db.CreateLedger(b.Context(), storage.LedgerInfo{Name: "default"})
	require.NoError(b, err)
	var head storage.Head
	b.ReportAllocs()
	b.ResetTimer()
	for left := b.N; left > 0; left -= commit {
		b.StopTimer()
		next := benchmarkBatch(head, min(left, commit), text)
		b.StartTimer()
		if err := store.Commit(b.Context(), head, next); err != nil {
			b.Fatal(err)
		}
		head = next.Head
	}
	b.StopTimer()
	m := db.engine.Metrics()
	var written uint64
	for _, l := range m.Levels {
		written += l.TableBytesFlushed + l.TableBytesCompacted + l.BlobBytesCompacted // includes the flushed value files
	}
	taken := float64(b.N) * benchRecord
	b.ReportMetric(float64(written)/taken, "written/byte")
	b.ReportMetric(float64(m.DiskSpaceUsage())/taken, "disk/byte")
	require.NoError(b, db.Close())
}

// BenchmarkKeys looks up 64 new idempotency keys in a ledger of 300,000 records, with no memory for
// a digest filter. blocks/key is the number of table blocks read per key, including filter blocks.
// unfiltered/key is the number of tables per key that no table filter excluded.
func BenchmarkKeys(b *testing.B) {
	const records, commit, asked = 300_000, 1000, 64
	text := prose(8 << 20)
	db, err := Open(b.Context(), Config{Dir: b.TempDir(), Logger: silent()})
	require.NoError(b, err)
	store, err := db.CreateLedger(b.Context(), storage.LedgerInfo{Name: "default"})
	require.NoError(b, err)
	db.fillers.spare.Store(0)
	for head := (storage.Head{}); head.Size < records; {
		next := benchmarkBatch(head, commit, text)
		require.NoError(b, store.Commit(b.Context(), head, next))
		head = next.Head
	}
	require.NoError(b, db.engine.Flush())
	fresh := make([]storage.Hash, asked)
	before := db.engine.Metrics()
	var n uint64
	b.ReportAllocs()
	b.ResetTimer()
	for b.Loop() {
		b.StopTimer()
		for i := range fresh {
			fresh[i] = digestOf(1<<61 + n)
			n++
		}
		b.StartTimer()
		if claims, err := store.KeyClaims(b.Context(), fresh); err != nil || len(claims) > 0 {
			b.Fatal(claims, err)
		}
	}
	b.StopTimer()
	after := db.engine.Metrics()
	blocks := after.BlockCache.Hits + after.BlockCache.Misses - before.BlockCache.Hits - before.BlockCache.Misses
	b.ReportMetric(float64(blocks)/float64(n), "blocks/key")
	b.ReportMetric(float64(after.Filter.Misses-before.Filter.Misses)/float64(n), "unfiltered/key")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/key")
	require.NoError(b, db.Close())
}
