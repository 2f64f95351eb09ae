package publish_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/internal/publish/bucket/buckettest"
	"colophon/ledger"
)

// At every size, the copy is identical to the log that the server serves.
func TestCopyEqualsLog(t *testing.T) {
	n, b := newNode(t), new(buckettest.MemoryBucket)
	n.publish(options(b))
	for _, size := range sizes {
		n.grow(size)
		n.wait(b)
		n.wantCopy(b.Objects())
	}
}

// A log with full tiles on two levels is published correctly, both to an empty bucket and to a
// bucket with a smaller copy.
func TestLargeCopy(t *testing.T) {
	if testing.Short() {
		t.Skip("this test takes a minute")
	}
	n, b, small := newNode(t), new(buckettest.MemoryBucket), new(buckettest.MemoryBucket)
	n.grow(300)
	_, stop := n.publish(options(small))
	n.wait(small)
	stop()
	n.grow(66_000)
	n.publish(options(b))
	n.publish(options(small))
	n.wait(b)
	n.wait(small)
	for _, objects := range []map[string][]byte{b.Objects(), small.Objects()} {
		n.wantCovered(objects)
	}
	n.wantCopy(b.Objects())
}

// The copy contains every key change that its checkpoint covers.
func TestKeysArePublished(t *testing.T) {
	n, b := newNode(t), new(buckettest.MemoryBucket)
	n.publish(options(b))
	n.grow(3)
	_, err := n.host.RotateKey(t.Context(), ledger.DefaultName, "a test")
	require.NoError(t, err)
	n.wait(b)
	n.wantCopy(b.Objects())
	n.grow(6)
	_, err = n.host.RetireKey(t.Context(), ledger.DefaultName, "a test")
	require.NoError(t, err)
	n.wait(b)
	n.wantCopy(b.Objects())
}

// A ledger that is neither public nor named in the options is not published.
func TestWhichLedgersArePublished(t *testing.T) {
	n, b := newNode(t), new(buckettest.MemoryBucket)
	require.NoError(t, n.ledger.SetLogPublic(t.Context(), false))
	o := options(b)
	o.Ledgers = []string{"named"}
	p, stop := n.publish(o)
	_, err := n.host.Create(t.Context(), ledger.CreateOptions{Name: "named"})
	require.NoError(t, err)
	_, err = n.host.Create(t.Context(), ledger.CreateOptions{Name: "private"})
	require.NoError(t, err)
	n.grow(3)
	require.Eventually(t, func() bool { return b.Objects()["v1/ledgers/named/log/checkpoint"] != nil }, time.Minute, time.Millisecond)
	stop()
	for name := range b.Objects() {
		require.True(t, name == "colophon-probe" || strings.HasPrefix(name, "v1/ledgers/named/"), name)
	}
	require.Equal(t, map[string]float64{"colophon_publish_tree_size named": 1}, values(t, p, "colophon_publish_tree_size"))
}

// Closing publishes commits that would otherwise wait for the end of the interval.
func TestClosePublishesTheLastCommits(t *testing.T) {
	n, b := newNode(t), new(buckettest.MemoryBucket)
	o := options(b)
	o.Interval = time.Hour
	_, stop := n.publish(o)
	n.wait(b)
	n.grow(20)
	stop()
	n.wantCopy(b.Objects())
}

// Of several servers, only the one that writes a ledger publishes it.
func TestOnlyTheWriterPublishes(t *testing.T) {
	n := newNode(t)
	n.grow(10)
	b := new(buckettest.MemoryBucket)
	var writes atomic.Bool
	requested := make(chan struct{}, 1)
	o := options(b)
	o.WritesLedger = func(string) bool {
		select {
		case requested <- struct{}{}:
		default:
		}
		return writes.Load()
	}
	_, stop := n.publish(o)
	<-requested
	stop()
	require.Empty(t, b.Objects())
	writes.Store(true)
	n.publish(o)
	n.wait(b)
	n.wantCopy(b.Objects())
}

// Each tile and bundle is written once, although later publications build on the same tiles.
func TestObjectsAreWrittenOnce(t *testing.T) {
	n, b := newNode(t), new(buckettest.MemoryBucket)
	n.publish(options(b))
	for _, size := range []uint64{700, 701, 800, 1300} {
		n.grow(size)
		n.wait(b)
	}
	puts := make(map[string]int)
	for _, call := range b.Calls() {
		if call.Method == "Put" && strings.Contains(call.ObjectName, "/tile/") {
			puts[call.ObjectName]++
		}
	}
	require.Contains(t, puts, prefix+"tile/entries/001")
	for name, count := range puts {
		require.Equal(t, 1, count, name)
	}
}
