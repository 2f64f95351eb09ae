package frames_test

import (
	"bytes"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"colophon/internal/frames"
)

// These are the numbers of the logs that the tests write. The later log overwrites the earlier one.
const (
	earlier = 16
	later   = 17
)

// writeLog writes records into a log as Pebble does when it reuses a file: they overwrite the
// content over. It syncs each record before it writes the next. It returns the content of the file
// and the offset at which the records end. If ended is true, it closes the log properly.
func writeLog(t *testing.T, number int, over []byte, sizes []int, ended bool) (text []byte, end int) {
	t.Helper()
	files := vfs.NewMem()
	f, err := files.Create("log", vfs.WriteCategoryUnspecified)
	require.NoError(t, err)
	_, err = f.Write(bytes.Clone(over))
	require.NoError(t, err)
	require.NoError(t, f.Close())
	f, err = files.ReuseForWrite("log", "again", vfs.WriteCategoryUnspecified)
	require.NoError(t, err)
	config := record.LogWriterConfig{WriteWALSyncOffsets: func() bool { return true },
		WALFsyncLatency: prometheus.NewHistogram(prometheus.HistogramOpts{})} // otherwise the log has no synced offsets
	w := record.NewLogWriter(f, earlier, config)
	if number == later {
		w = record.NewLogWriter(f, later, config)
	}
	for i, size := range sizes {
		var wait sync.WaitGroup
		var failed error
		wait.Add(1)
		_, err := w.SyncRecord(fill(size, uint64(number<<32+i)), &wait, &failed)
		require.NoError(t, err)
		wait.Wait()
		require.NoError(t, failed)
	}
	end = int(w.Size())
	if ended {
		require.NoError(t, w.Close())
	} else {
		t.Cleanup(func() { require.NoError(t, w.Close()) })
	}
	again, err := files.Open("again")
	require.NoError(t, err)
	text, err = io.ReadAll(again)
	require.NoError(t, err)
	return text, end
}

func writeManifest(t *testing.T, sizes []int) []byte {
	t.Helper()
	var text bytes.Buffer
	w := record.NewWriter(&text)
	for i, size := range sizes {
		_, err := w.WriteRecord(fill(size, uint64(i)))
		require.NoError(t, err)
		require.NoError(t, w.Flush())
	}
	return text.Bytes()
}

// fill returns bytes that hardly compress and depend only on seed.
func fill(n int, seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 0)) // #nosec G404 -- test data
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// eachBit calls f with copies of text in which a single bit is flipped. It flips each bit of the
// first 20 bytes, and a sample of the other bits. f must not retain damaged.
func eachBit(text []byte, f func(bit int, damaged []byte)) {
	damaged := bytes.Clone(text)
	for bit := 0; bit < 8*len(text); bit++ {
		if bit > 160 {
			bit += len(text) / 30
		}
		if bit/8 < len(text) {
			damaged[bit/8] ^= 1 << (bit % 8)
			f(bit, damaged)
			damaged[bit/8] ^= 1 << (bit % 8)
		}
	}
}

var logs = map[string][]int{
	"one record":         {90},
	"some":               {100, 1, 300, 7, 250},
	"to the edge":        {32<<10 - 19 - 25, 50, 80},
	"large":              {100, 100_000, 30, 40_000},
	"an empty one amid":  {30, 0, 30},
	"one at many blocks": {200_000},
}

// Every flipped bit of a log is detected, even in its last record.
func TestEveryBitOfALogCounts(t *testing.T) {
	for name, sizes := range logs {
		for _, ended := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				over, _ := writeLog(t, earlier, nil, []int{70_000, 30, 60_000}, true)
				text, end := writeLog(t, later, over, sizes, ended)
				require.NoError(t, frames.CheckWAL(text, later))
				eachBit(text[:end], func(bit int, damaged []byte) {
					whole := append(bytes.Clone(damaged), text[end:]...)
					require.Error(t, frames.CheckWAL(whole, later), "bit %d of %d", bit, 8*end)
				})
			})
		}
	}
}

// A log that ends in the middle of a record is sound, whatever part of the record remains.
func TestALogMayBeCutOff(t *testing.T) {
	for name, sizes := range logs {
		t.Run(name, func(t *testing.T) {
			over, _ := writeLog(t, earlier, nil, []int{70_000, 30, 60_000}, true)
			before, start := writeLog(t, later, over, sizes, false)
			after, end := writeLog(t, later, over, append(sizes[:len(sizes):len(sizes)], 900), false)
			require.NoError(t, frames.CheckWAL(after, later))
			for at := start + 1; at < end-8; at += 37 { // a record that lacks only its last bytes could look by chance as if one bit had flipped
				require.NoError(t, frames.CheckWAL(after[:at], later), "the file ends at byte %d of %d to %d", at, start, end)
				torn := append(bytes.Clone(after[:at]), before[min(at, len(before)):]...)
				require.NoError(t, frames.CheckWAL(torn, later), "the earlier content begins at byte %d of %d to %d", at, start, end)
				zeroed := append(bytes.Clone(after[:at]), make([]byte, 5000)...)
				require.NoError(t, frames.CheckWAL(zeroed, later), "zeros begin at byte %d of %d to %d", at, start, end)
			}
		})
	}
}

// Damage of more than one bit is detected if later data proves that the damaged record was synced.
// It can go undetected in the last block, because a lost header hides everything after it.
func TestLostSectorsOfALog(t *testing.T) {
	text, end := writeLog(t, later, nil, slices.Repeat([]int{400}, 300), false)
	for at := 0; at+512 < end; at += 512 {
		damaged := bytes.Clone(text)
		copy(damaged[at:at+512], fill(512, uint64(at)))
		if err := frames.CheckWAL(damaged, later); at < end-end%(32<<10) {
			require.Error(t, err, "sector at byte %d of %d", at, end)
		}
	}
	damaged := bytes.Clone(text)
	// Damage the payload of a record, but not its header. The next one or two records may not show
	// that the record was synced, but later ones do.
	copy(damaged[end-4000:end-3900], fill(100, 0))
	require.Error(t, frames.CheckWAL(damaged, later))
}

// CheckWAL also checks a log without synced offsets, such as the first log of a new database.
func TestOlderLogs(t *testing.T) {
	var text bytes.Buffer
	w := record.NewLogWriter(&text, later, record.LogWriterConfig{WriteWALSyncOffsets: func() bool { return false }})
	for i := range 3 {
		_, err := w.WriteRecord(fill(100, uint64(i)))
		require.NoError(t, err)
	}
	end := int(w.Size())
	require.NoError(t, w.Close())
	require.NoError(t, frames.CheckWAL(text.Bytes(), later))
	eachBit(text.Bytes()[:end], func(bit int, damaged []byte) {
		require.Error(t, frames.CheckWAL(damaged, later), "bit %d of %d", bit, 8*end)
	})
	for at := range end - 8 {
		require.NoError(t, frames.CheckWAL(text.Bytes()[:at], later), "cut off at byte %d", at)
	}
}

var manifests = map[string][]int{
	"one record": {200},
	"some":       {300, 40, 50, 60},
	"large":      {90_000, 40, 32 << 10, 50},
	"edge":       {32<<10 - 7 - 5, 20},
}

func TestEveryBitOfAManifestCounts(t *testing.T) {
	for name, sizes := range manifests {
		t.Run(name, func(t *testing.T) {
			text := writeManifest(t, sizes)
			require.NoError(t, frames.CheckManifest(text, 1))
			eachBit(text, func(bit int, damaged []byte) {
				// The padding at the end of a block is not read.
				if room := sizes[0] == 32<<10-7-5 && bit/8 >= 32<<10-5 && bit/8 < 32<<10; !room {
					require.Error(t, frames.CheckManifest(damaged, 1), "bit %d of %d", bit, 8*len(text))
				}
			})
		})
	}
}

func TestAManifestMayBeCutOff(t *testing.T) {
	for name, sizes := range manifests {
		t.Run(name, func(t *testing.T) {
			start := len(writeManifest(t, sizes))
			text := writeManifest(t, append(sizes[:len(sizes):len(sizes)], 700))
			for at := start; at < len(text); at += 11 {
				require.NoError(t, frames.CheckManifest(text[:at], 1), "at byte %d of %d to %d", at, start, len(text))
				zeroed := append(bytes.Clone(text[:at]), make([]byte, 100)...)
				require.NoError(t, frames.CheckManifest(zeroed, 1), "zeros from byte %d of %d to %d", at, start, len(text))
			}
		})
	}
}

// A manifest that replaces another one begins with two records. In the first manifest of a
// database, the second record can be incomplete.
func TestAManifestHasASequenceNumber(t *testing.T) {
	for name, sizes := range manifests {
		t.Run(name, func(t *testing.T) {
			one, two := len(writeManifest(t, sizes[:1])), writeManifest(t, []int{sizes[0], 700})
			require.NoError(t, frames.CheckManifest(two, 6))
			for at := one; at < len(two); at += 11 {
				require.NoError(t, frames.CheckManifest(two[:at], 1), "at byte %d of %d to %d", at, one, len(two))
				require.Error(t, frames.CheckManifest(two[:at], 6), "at byte %d of %d to %d", at, one, len(two))
			}
		})
	}
}

// The checks neither panic nor modify their input, whatever it contains.
func FuzzCheck(f *testing.F) {
	f.Add([]byte{}, uint64(later))
	f.Add(bytes.Repeat([]byte{9, 0, 0, 0, 1, 0, 9, 17}, 300), uint64(later))
	f.Fuzz(func(t *testing.T, text []byte, number uint64) {
		kept := bytes.Clone(text)
		_ = frames.CheckWAL(text, number)
		_ = frames.CheckManifest(text, number)
		require.Equal(t, kept, text)
	})
}
