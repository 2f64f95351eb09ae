package publish_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/internal/publish/bucket"
	"colophon/internal/publish/bucket/buckettest"
	"colophon/internal/testing/locked"
)

// readFolder returns the objects in a folder, excluding incomplete files.
func readFolder(t testing.TB, dir string) map[string][]byte {
	t.Helper()
	objects := make(map[string][]byte)
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil || strings.HasPrefix(name, ".") {
			return err
		}
		body, err := os.ReadFile(path)
		objects[filepath.ToSlash(name)] = body
		return err
	})
	if !errors.Is(err, fs.ErrNotExist) {
		require.NoError(t, err)
	}
	return objects
}

// waitFolder waits until a folder contains the checkpoint of the head, and returns its objects.
func (n *node) waitFolder(dir string) map[string][]byte {
	n.t.Helper()
	require.Eventually(n.t, func() bool {
		text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(prefix), "checkpoint"))
		return err == nil && string(text) == string(n.ledger.Head().Checkpoint)
	}, time.Minute, time.Millisecond)
	return readFolder(n.t, dir)
}

// A copy in a folder is identical to the log that the server serves.
func TestFolder(t *testing.T) {
	n, dir := newNode(t), filepath.Join(t.TempDir(), "copy")
	b, err := bucket.Open("file://" + filepath.ToSlash(dir))
	require.NoError(t, err)
	n.publish(options(b))
	for _, size := range sizes {
		n.grow(size)
		n.wantCopy(n.waitFolder(dir))
	}
}

// A publisher catches up after faults of an S3 endpoint, as it does after faults of an in-memory
// bucket.
func TestFaultyEndpoint(t *testing.T) {
	for name, m := range map[string]*buckettest.MemoryBucket{"ignores conditions": {IgnoresIfAbsent: true, IgnoresIfTag: true}, "refuses conditions": {RefusesConditions: true},
		"fails": {Fault: every(4, buckettest.FaultBeforeCall)}, "fails after it has written": {Fault: every(4, buckettest.FaultAfterCall)},
		"hangs": {Fault: every(9, buckettest.FaultHang)}, "forgets": {Fault: every(4, buckettest.FaultLostPut)}} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			b, err := bucket.Open(buckettest.ServeS3(t, m))
			require.NoError(t, err)
			o := options(b)
			if name == "hangs" {
				o.Timeout = 100 * time.Millisecond
			}
			_, stop := n.publish(o)
			for _, size := range sizes {
				n.grow(size)
			}
			n.wait(m)
			stop()
			n.wantCopy(m.Objects())
		})
	}
}

// If all objects of a copy are deleted, the publisher writes them again, even to a bucket without
// conditional writes.
func TestDeletedCopy(t *testing.T) {
	for name, b := range map[string]*buckettest.MemoryBucket{"conditions": {}, "ignores conditions": {IgnoresIfAbsent: true, IgnoresIfTag: true}, "refuses conditions": {RefusesConditions: true}} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			p, _ := n.publish(options(b))
			for _, size := range sizes[1:] { // the log starts with the first size, and must grow
				n.waitIdle(p) // a round that runs meanwhile would find some objects, but not others
				for name := range b.Objects() {
					b.SetObject(name, nil)
				}
				n.grow(size)
				n.wait(b)
				n.wantCopy(b.Objects())
			}
		})
	}
}

// every returns a function that injects the given fault into every nth call, but only among the
// first 299 calls.
func every(n int, fault buckettest.Fault) func(buckettest.Call) buckettest.Fault {
	calls := 0
	return func(buckettest.Call) buckettest.Fault {
		if calls++; calls%n == 0 && calls < 300 {
			return fault
		}
		return buckettest.NoFault
	}
}

// A copy on a real S3 server is identical to the log that the server serves, even after the S3
// server has been killed and the publisher has been restarted.
func TestS3(t *testing.T) {
	s := buckettest.StartS3(t)
	n := newNode(t)
	b, err := bucket.Open(s.URL("copies/one"))
	require.NoError(t, err)
	dir := filepath.Join(s.ObjectFolder(), "copies", "one")
	o := options(b)
	o.MaxRetryPause = 20 * time.Millisecond
	for i, size := range sizes {
		p, stop := n.publish(o)
		if i%2 == 1 {
			n.waitFolder(dir)
			s.Kill()
			n.grow(size)
			wantFailure(t, p, "unavailable")
			s.Start()
		}
		n.grow(size)
		objects := n.waitFolder(dir)
		stop()
		n.wantCopy(objects)
	}
}

// A publisher catches up after faults between it and a real S3 server.
func TestS3WithFaults(t *testing.T) {
	for name, fault := range map[string]buckettest.Fault{"fails": buckettest.FaultBeforeCall, "fails after it has written": buckettest.FaultAfterCall,
		"hangs": buckettest.FaultHang, "forgets": buckettest.FaultLostPut} {
		t.Run(name, func(t *testing.T) {
			s := buckettest.StartS3(t)
			n := newNode(t)
			var calls, injected atomic.Int32
			b, err := bucket.Open(s.FaultyURL(t, "copies/one", func(method string) buckettest.Fault {
				if fault == buckettest.FaultLostPut && method != http.MethodPut {
					return buckettest.NoFault
				}
				if call := calls.Add(1); call%5 == 0 && call < 60 {
					injected.Add(1)
					return fault
				}
				return buckettest.NoFault
			}))
			require.NoError(t, err)
			o := options(b)
			o.MaxRetryPause, o.Timeout = 20*time.Millisecond, 500*time.Millisecond
			_, stop := n.publish(o)
			var objects map[string][]byte
			for _, size := range sizes {
				n.grow(size)
				objects = n.waitFolder(filepath.Join(s.ObjectFolder(), "copies", "one"))
			}
			stop()
			n.wantCopy(objects)
			require.Positive(t, injected.Load())
		})
	}
}

// Copies on emulators of Google's and Azure's services are identical to the log that is served.
func TestClouds(t *testing.T) {
	for name, start := range map[string]func(t *testing.T) string{
		"Google": func(t *testing.T) string { return buckettest.StartGCS(t).URL("copies/one") },
		"Azure":  func(t *testing.T) string { return buckettest.StartAzure(t).URL("copies/one") },
	} {
		t.Run(name, func(t *testing.T) {
			b, err := bucket.Open(start(t))
			require.NoError(t, err)
			mirror := &mirrored{Bucket: b, names: make(map[string]bool)}
			n := newNode(t)
			var logged locked.Buffer
			o := options(mirror)
			o.Logger = slog.New(slog.NewTextHandler(&logged, nil))
			for _, size := range sizes {
				n.grow(size)
				_, stop := n.publish(o)
				require.Eventually(t, func() bool {
					text, _, err := b.Get(t.Context(), prefix+"checkpoint", 1<<20)
					return err == nil && bytes.Equal(text, n.ledger.Head().Checkpoint)
				}, time.Minute, 5*time.Millisecond)
				stop()
				n.wantCopy(mirror.objects(t))
			}
			require.Contains(t, logged.String(), "publishing to a bucket that honours conditional writes")
			require.NotContains(t, logged.String(), "does not honour")
		})
	}
}

// mirrored is a bucket that records the names of the objects written to it.
type mirrored struct {
	bucket.Bucket
	mu    sync.Mutex
	names map[string]bool
}

// Put implements bucket.Bucket.
func (m *mirrored) Put(ctx context.Context, name string, body []byte, a bucket.Attributes, c bucket.Condition) error {
	m.mu.Lock()
	m.names[name] = true
	m.mu.Unlock()
	return m.Bucket.Put(ctx, name, body, a, c)
}

// objects reads all objects that have been written.
func (m *mirrored) objects(t testing.TB) map[string][]byte {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	objects := make(map[string][]byte)
	for name := range m.names {
		body, _, err := m.Get(t.Context(), name, 1<<25)
		require.NoError(t, err)
		objects[name] = body
	}
	return objects
}
