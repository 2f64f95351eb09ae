package publish_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/internal/publish/bucket/buckettest"
	"colophon/internal/testing/locked"
	"colophon/ledger"
	"colophon/storage/memory"
)

// If a publication is interrupted before or after any step, the copy contains everything that its checkpoint
// covers, and the next publication completes the copy.
func TestEndAtEveryStep(t *testing.T) {
	n := newNode(t)
	n.grow(254)
	start := new(buckettest.MemoryBucket)
	_, stop := n.publish(options(start))
	n.wait(start)
	stop()
	n.grow(600)

	whole := restart(start)
	_, stop = n.publish(options(whole))
	n.wait(whole)
	stop()
	steps := len(whole.Calls())
	require.Greater(t, steps, 20)
	for _, fault := range []buckettest.Fault{buckettest.FaultBeforeCall, buckettest.FaultAfterCall} {
		for end := range steps {
			b := restart(start)
			var calls atomic.Int64
			ended := make(chan struct{})
			b.Fault = func(buckettest.Call) buckettest.Fault {
				switch done := int(calls.Add(1)) - 1; {
				case done < end:
					return buckettest.NoFault
				case done == end:
					close(ended)
					return fault
				}
				return buckettest.FaultBeforeCall // as if the process had stopped after the fault
			}
			_, stop := n.publish(options(b))
			<-ended
			stop()
			n.wantCovered(b.Objects())

			again := restart(b)
			_, stop = n.publish(options(again))
			n.wait(again)
			stop()
			n.wantCopy(again.Objects())
		}
	}
}

// A publisher catches up after its bucket has failed, hung, or lost objects.
func TestFaultsOfTheBucket(t *testing.T) {
	for name, fault := range map[string]buckettest.Fault{"fails": buckettest.FaultBeforeCall, "fails after it has written": buckettest.FaultAfterCall,
		"hangs": buckettest.FaultHang, "forgets": buckettest.FaultLostPut} {
		t.Run(name, func(t *testing.T) {
			n, b := newNode(t), new(buckettest.MemoryBucket)
			b.Fault = every(3, fault)
			o := options(b)
			o.Timeout = 20 * time.Millisecond
			p, _ := n.publish(o)
			for _, size := range sizes {
				n.grow(size)
			}
			n.waitIdle(p)
			n.wantCopy(b.Objects())
			require.Positive(t, values(t, p, "colophon_publish_failures_total")["colophon_publish_failures_total default unavailable"])
			require.Zero(t, values(t, p, "colophon_publish_lag_events")["colophon_publish_lag_events default"])
		})
	}
}

// During an outage, the metrics show how far the copy lags behind.
func TestLag(t *testing.T) {
	n, b := newNode(t), new(buckettest.MemoryBucket)
	var down atomic.Bool
	b.Fault = func(buckettest.Call) buckettest.Fault {
		if down.Load() {
			return buckettest.FaultBeforeCall
		}
		return buckettest.NoFault
	}
	p, _ := n.publish(options(b))
	n.waitIdle(p)
	down.Store(true)
	n.grow(11)
	const failures = "colophon_publish_failures_total"
	require.Eventually(t, func() bool { return values(t, p, failures)[failures+" default unavailable"] > 2 }, time.Minute, time.Millisecond)
	require.Equal(t, 10.0, values(t, p, "colophon_publish_lag_events")["colophon_publish_lag_events default"])
	require.Positive(t, values(t, p, "colophon_publish_lag_seconds")["colophon_publish_lag_seconds default"])
	down.Store(false)
	n.wait(b)
	require.Eventually(t, func() bool {
		return values(t, p, "colophon_publish_lag_seconds")["colophon_publish_lag_seconds default"] == 0
	}, time.Minute, time.Millisecond)
}

// Publishing to a bucket that ignores or refuses conditional writes produces the same copy, and logs
// a warning about the bucket.
func TestConditionsThatAreIgnored(t *testing.T) {
	for name, b := range map[string]*buckettest.MemoryBucket{
		"If-None-Match": {IgnoresIfAbsent: true}, "If-Match": {IgnoresIfTag: true}, "both": {IgnoresIfAbsent: true, IgnoresIfTag: true}, "refused": {RefusesConditions: true},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			o := options(b)
			var logged locked.Buffer
			o.Logger = slog.New(slog.NewTextHandler(&logged, nil))
			_, stop := n.publish(o)
			for _, size := range sizes {
				n.grow(size)
				n.wait(b)
			}
			stop()
			n.wantCopy(b.Objects())
			require.Equal(t, b.IgnoresIfAbsent || b.RefusesConditions, strings.Contains(logged.String(), `condition="If-None-Match: *"`), logged.String())
			require.Equal(t, b.IgnoresIfTag || b.RefusesConditions, strings.Contains(logged.String(), `condition=If-Match `), logged.String())

			// An object with different bytes is not replaced.
			tile := prefix + "tile/0/001"
			b.SetObject(tile, []byte("other"))
			b.SetObject(prefix+"checkpoint", nil)
			p, _ := n.publish(o)
			wantFailure(t, p, "different")
			require.Equal(t, "other", string(b.Objects()[tile]))
			require.NotContains(t, b.Objects(), prefix+"checkpoint")
		})
	}
}

// An object whose bytes differ from the log's is reported, and not replaced.
func TestDifferentObjectStays(t *testing.T) {
	for _, name := range []string{"tile/0/000", "tile/entries/000", "tile/1/000.p/1", "tile/0/001.p/44"} {
		for _, other := range []string{"", "other", strings.Repeat("x", 100_000)} {
			n, b := newNode(t), new(buckettest.MemoryBucket)
			b.SetObject(prefix+name, []byte(other))
			n.grow(300)
			p, stop := n.publish(options(b))
			wantFailure(t, p, "different")
			stop()
			require.Equal(t, other, string(b.Objects()[prefix+name]))
			require.NotContains(t, b.Objects(), prefix+"checkpoint")
		}
	}
}

// Entries that the database has lost or changed are not published.
func TestDamagedLogIsNotPublished(t *testing.T) {
	for name, damage := range map[string]func(*memory.Tamperer) error{
		"a changed entry": func(d *memory.Tamperer) error { return d.SetEntry(270, bytes.Repeat([]byte("x"), 100)) },
		"a lost entry":    func(d *memory.Tamperer) error { return d.DeleteEntry(5) },
		"a changed tile":  func(d *memory.Tamperer) error { return d.SetTile(0, 0, make([]byte, 8192)) },
	} {
		t.Run(name, func(t *testing.T) {
			database, keys := memory.New(), t.TempDir()
			open(t, database, keys).grow(300)
			tamper, err := database.Tamperer(ledger.DefaultName)
			require.NoError(t, err)
			n, b := open(t, database, keys), new(buckettest.MemoryBucket) // reopened, so that its cache of tiles is empty
			require.NoError(t, damage(tamper))
			p, stop := n.publish(options(b))
			wantFailure(t, p, "unreadable")
			stop()
			require.NotContains(t, b.Objects(), prefix+"checkpoint")
		})
	}
}

// If a bucket contains the copy of another log, of a fork, or of a longer version of the log, the publisher
// refuses it and changes nothing.
func TestForeignCopyIsRefused(t *testing.T) {
	database, keys := memory.New(), t.TempDir()
	n, theirs := open(t, database, keys), new(buckettest.MemoryBucket)
	n.grow(300)
	_, stop := n.publish(options(theirs))
	n.wait(theirs)
	stop()

	another := newNode(t)
	another.grow(400)
	fork := open(t, memory.New(), keysOf(t, keys))
	ahead := open(t, memory.New(), keysOf(t, keys))
	fork.grow(400)
	for name, other := range map[string]*node{"another log": another, "a fork": fork, "a log that is further": ahead} {
		t.Run(name, func(t *testing.T) {
			b := restart(theirs)
			p, stop := other.publish(options(b))
			wantFailure(t, p, "foreign")
			stop()
			got := b.Objects()
			delete(got, "colophon-probe")
			want := theirs.Objects()
			delete(want, "colophon-probe")
			require.Equal(t, want, got)
		})
	}
}

// If two publishers write the same log, the one that lags behind never moves the checkpoint back.
func TestLosingWriter(t *testing.T) {
	n := newNode(t)
	b := new(buckettest.MemoryBucket)
	n.grow(10)
	held := make(chan struct{})
	release := make(chan struct{})
	var once sync.Once
	slow := &heldBucket{MemoryBucket: b, held: func() { once.Do(func() { close(held); <-release }) }}
	p, _ := n.publish(options(slow))
	<-held // the slow publisher is about to replace the checkpoint
	n.grow(300)
	n.publish(options(b))
	n.wait(b)
	close(release)
	n.waitIdle(p)
	n.wantCopy(b.Objects())
}

// Close does not wait for a bucket that hangs, no matter how many ledgers there are.
func TestCloseDoesNotHang(t *testing.T) {
	n := newNode(t)
	o := options(&buckettest.MemoryBucket{Fault: func(buckettest.Call) buckettest.Fault { return buckettest.FaultHang }})
	o.Timeout, o.CloseTimeout = time.Hour, time.Millisecond
	o.Ledgers = []string{"a", "b", "c"}
	for _, name := range o.Ledgers {
		_, err := n.host.Create(t.Context(), ledger.CreateOptions{Name: name})
		require.NoError(t, err)
	}
	_, stop := n.publish(o)
	n.grow(10)
	stop() // if Close waits, the test times out
}

// A publisher does not replace the keys of another log, or a key history with more changes than its
// own.
func TestForeignKeysAreRefused(t *testing.T) {
	keys := t.TempDir()
	n := open(t, memory.New(), keys)
	older := open(t, memory.New(), keysOf(t, keys)) // a log with the same first key
	_, err := n.host.RotateKey(t.Context(), ledger.DefaultName, "a test")
	require.NoError(t, err)
	for name, check := range map[string]struct{ owner, publisher *node }{"of another log": {newNode(t), n}, "that have changed": {n, older}} {
		t.Run(name, func(t *testing.T) {
			status, key := check.owner.get("/" + prefix + "key")
			require.Equal(t, http.StatusOK, status)
			b := new(buckettest.MemoryBucket)
			b.SetObject(prefix+"key", key)
			p, stop := check.publisher.publish(options(b))
			wantFailure(t, p, "foreign")
			stop()
			require.Equal(t, key, b.Objects()[prefix+"key"])
			require.Len(t, b.Objects(), 2, "the keys and the probe")
		})
	}
}

// The publisher recognizes that the bucket honours conditions, even if another server probes it at the same
// time and the bucket's tags are not digests.
func TestProbesAtOneTime(t *testing.T) {
	n := newNode(t)
	b := &overtaken{MemoryBucket: &buckettest.MemoryBucket{UniqueTags: true}}
	var logged locked.Buffer
	o := options(b)
	o.Logger = slog.New(slog.NewTextHandler(&logged, nil))
	_, stop := n.publish(o)
	n.grow(3)
	n.wait(b.MemoryBucket)
	stop()
	n.wantCopy(b.Objects())
	require.NotContains(t, logged.String(), "does not honour")
}

// overtaken is a bucket whose probe object is replaced by another server after the first read.
type overtaken struct {
	*buckettest.MemoryBucket
	once sync.Once
}

// Get implements bucket.Bucket.
func (o *overtaken) Get(ctx context.Context, name string, limit int64) (body []byte, tag string, err error) {
	body, tag, err = o.MemoryBucket.Get(ctx, name, limit)
	if name == "colophon-probe" {
		o.once.Do(func() { o.SetObject(name, body) })
	}
	return body, tag, err
}
