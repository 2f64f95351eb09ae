package pebble

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/storage"
)

// prose is text that compresses about as well as what people and models write.
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

// benchmarkBatch is n entries of 1.2 KB with 2 KB of content and a key each, and
// the tiles at the right edge.
func benchmarkBatch(old storage.Head, n int, text []byte) storage.Batch {
	const entryBytes, contentBytes = 1200, 2000
	b := storage.Batch{Head: storage.Head{Size: old.Size + uint64(n), Checkpoint: text[:300]}}
	for i := range n {
		seq := old.Size + uint64(i)
		at := int(seq*7919) % (len(text) - contentBytes)
		entry := binary.BigEndian.AppendUint64(nil, seq)
		b.Entries = append(b.Entries, append(entry, text[at:at+entryBytes]...))
		digest := digestOf(seq)
		b.Contents = append(b.Contents, storage.Content{Digest: digest, Seq: seq, Bytes: text[at : at+contentBytes]})
		b.Keys = append(b.Keys, storage.Key{Key: digestOf(^seq), Record: digest, Seq: seq})
	}
	for index := old.Size / storage.TileHashes; index <= (b.Head.Size-1)/storage.TileHashes; index++ {
		hashes := min(b.Head.Size-index*storage.TileHashes, storage.TileHashes)
		b.Tiles = append(b.Tiles, storage.Tile{Index: index, Hashes: text[:hashes*storage.HashBytes]})
	}
	b.Head.Tip = digestOf(b.Head.Size)
	return b
}

// BenchmarkCommit commits to the disk, with its syncs.
func BenchmarkCommit(b *testing.B) {
	text := prose(1 << 20)
	for _, n := range []int{1, 64, 256, 1024} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			db, err := Open(b.Context(), Config{Dir: b.TempDir(), Logger: silent()})
			require.NoError(b, err)
			store, err := db.Create(b.Context(), storage.Info{Name: "default"})
			require.NoError(b, err)
			var head storage.Head
			var bytes int64
			for b.Loop() {
				b.StopTimer()
				next := benchmarkBatch(head, n, text)
				bytes += int64(n) * 3200
				b.StartTimer()
				if err := store.Commit(b.Context(), head, next); err != nil {
					b.Fatal(err)
				}
				head = next.Head
			}
			b.StopTimer()
			b.ReportMetric(float64(head.Size)/b.Elapsed().Seconds(), "entries/s")
			m, err := db.Metrics()
			require.NoError(b, err)
			b.ReportMetric(float64(m.DiskBytes)/float64(bytes), "disk-bytes/byte")
			require.NoError(b, db.Close())
		})
	}
}
