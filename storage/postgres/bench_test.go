package postgres

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/storage"
	"colophon/storage/postgres/postgrestest"
)

// Sizes, in bytes, of the parts of a benchmark record. benchPrompts is the number of distinct
// prompts among the records.
const (
	benchEntry   = 1100
	benchText    = 500 // length of a record's payload, and also of its output
	benchPrompt  = 200
	benchPrompts = 32
)

// benchBatch returns a batch that extends old by n records, including their tiles. Each record has
// an entry, two unique texts, a prompt that it shares with other records, and an idempotency key.
func benchBatch(old storage.Head, n int, text []byte) storage.Batch {
	b := storage.Batch{Head: storage.Head{Size: old.Size + uint64(n), Checkpoint: text[:300]}}
	cut := func(seq uint64, bytes int) []byte {
		at := seq * 7919 % uint64(len(text)-bytes)
		return text[at : at+uint64(bytes)]
	}
	for i := range n {
		seq := old.Size + uint64(i)
		digest := digestOf(seq)
		b.Entries = append(b.Entries, cut(seq, benchEntry))
		b.Contents = append(b.Contents,
			storage.Content{Digest: digest, Seq: seq, Bytes: cut(seq, benchText)},
			storage.Content{Digest: digestOf(1<<60 + seq%benchPrompts), Seq: seq, Slot: 1, Bytes: text[:benchPrompt]},
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

// BenchmarkCommits measures concurrent commits to several ledgers, by a server that shares the
// database with other servers.
func BenchmarkCommits(b *testing.B) {
	const ledgers, records = 4, 16
	text := benchWords(1 << 20)
	server := postgrestest.SharedServer(b)
	db, err := Open(b.Context(), Config{URL: server.URL("search_path", server.CreateSchema(b)), Logger: silent(), LedgerServer: &LedgerServer{ID: "a"}})
	require.NoError(b, err)
	var stores [ledgers]storage.Store
	for i := range stores {
		stores[i], err = db.CreateLedger(b.Context(), storage.LedgerInfo{Name: fmt.Sprint("ledger-", i)})
		require.NoError(b, err)
	}
	var heads [ledgers]storage.Head
	b.ResetTimer()
	for range b.N {
		var commits sync.WaitGroup
		for i, store := range stores {
			commits.Go(func() {
				next := benchBatch(heads[i], records, text)
				if err := store.Commit(b.Context(), heads[i], next); err != nil {
					b.Error(err)
				}
				heads[i] = next.Head
			})
		}
		commits.Wait()
	}
	b.ReportMetric(float64(b.N*ledgers)/b.Elapsed().Seconds(), "commits/s")
	require.NoError(b, db.Close())
}

// benchWords returns text of the given length, in bytes, that consists of random words. The text is
// the same in every run.
func benchWords(bytes int) (text []byte) {
	dice := rand.New(rand.NewPCG(1, 2))
	for len(text) < bytes {
		for range 2 + dice.IntN(9) {
			text = append(text, 'a'+byte(dice.IntN(26)))
		}
		text = append(text, ' ')
	}
	return text[:bytes]
}

// BenchmarkCommit measures commits of several sizes to a real disk, including the syncs. Before
// each commit, it looks up the idempotency keys, as the ledger does.
func BenchmarkCommit(b *testing.B) {
	text := benchWords(1 << 20)
	for _, n := range []int{1, 32, 64, 128, 256, 1024, 4096} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			server := postgrestest.SharedServer(b)
			db, err := Open(b.Context(), Config{URL: server.URL("search_path", server.CreateSchema(b)), Logger: silent()})
			require.NoError(b, err)
			store, err := db.CreateLedger(b.Context(), storage.LedgerInfo{Name: "default"})
			require.NoError(b, err)
			wal := func() (bytes int64) {
				require.NoError(b, db.reads.QueryRow(b.Context(), `SELECT (pg_current_wal_lsn() - '0/0')::bigint`).Scan(&bytes))
				return bytes
			}
			var head storage.Head
			before := wal()
			for b.Loop() {
				b.StopTimer()
				next := benchBatch(head, n, text)
				keys := make([]storage.Hash, 0, n)
				for _, k := range next.Claims {
					keys = append(keys, k.KeyDigest)
				}
				b.StartTimer()
				claims, err := store.KeyClaims(b.Context(), keys)
				require.NoError(b, err)
				require.Empty(b, claims)
				require.NoError(b, store.Commit(b.Context(), head, next))
				head = next.Head
			}
			b.ReportMetric(float64(head.Size)/b.Elapsed().Seconds(), "records/s")
			b.ReportMetric(float64(wal()-before)/float64(head.Size), "wal-B/record")
			require.NoError(b, db.Close())
		})
	}
}
