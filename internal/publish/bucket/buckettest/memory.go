// Package buckettest provides buckets for tests: an in-memory bucket that can fail, a real S3
// server, and emulators of Google Cloud Storage and Azure.
package buckettest

import (
	"bytes"
	"context"
	"crypto/md5" // #nosec G501 -- S3 computes an ETag as an MD5 digest
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"sync"

	"colophon/internal/publish/bucket"
)

// Fault says how a call to a MemoryBucket, or a request to an S3 server behind a proxy, fails, if at all.
type Fault int

// The faults that a MemoryBucket can inject.
const (
	NoFault         Fault = iota // the call works
	FaultBeforeCall              // the call has no effect and returns ErrFault
	FaultAfterCall               // the call takes effect but returns ErrFault
	FaultHang                    // the call has no effect, and returns when its context is done
	FaultLostPut                 // a Put succeeds but stores nothing; other calls work
)

// ErrFault is returned by calls with the fault FaultBeforeCall or FaultAfterCall.
var ErrFault = errors.New("the bucket fails because the test requests it")

// Call identifies a call to a bucket by the name of the method and the name of the object.
type Call struct{ Method, ObjectName string }

// MemoryBucket is an in-memory bucket that can fail. The zero MemoryBucket is empty and does not
// fail.
type MemoryBucket struct {
	// Fault returns the fault to inject into a call. If Fault is nil, no call fails. It must be set
	// before the bucket is used.
	Fault func(Call) Fault
	// OnPut, if set, receives all objects after each Put that takes effect. It must not call
	// methods of the MemoryBucket.
	OnPut func(name string, objects map[string][]byte)
	// IgnoresIfAbsent, IgnoresIfTag, and RefusesConditions say which conditions of a Put the bucket
	// ignores or refuses. RefusesConditions makes it refuse all of them as unsupported.
	IgnoresIfAbsent, IgnoresIfTag, RefusesConditions bool
	// UniqueTags makes an object's tag change with each Put, even if the bytes stay the same.
	UniqueTags bool

	mu      sync.Mutex
	objects map[string][]byte
	puts    map[string]int // the number of times that each object was written
	calls   []Call
}

// Objects returns all objects, keyed by name. The caller must not change their bytes.
func (m *MemoryBucket) Objects() map[string][]byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.objects)
}

// Calls returns the calls so far, in order.
func (m *MemoryBucket) Calls() []Call {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]Call(nil), m.calls...)
}

// SetObject stores an object without injecting a fault. A nil body removes the object.
func (m *MemoryBucket) SetObject(name string, body []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.set(name, body); body == nil {
		delete(m.objects, name)
	}
}

// set stores an object. It is called with mu held.
func (m *MemoryBucket) set(name string, body []byte) {
	if m.objects == nil {
		m.objects, m.puts = make(map[string][]byte), make(map[string]int)
	}
	m.objects[name] = body
	m.puts[name]++
}

// tag returns the tag of an object. It is called with mu held.
func (m *MemoryBucket) tag(name string) string {
	if m.UniqueTags {
		return strconv.Itoa(m.puts[name])
	}
	return tagOf(m.objects[name])
}

func tagOf(body []byte) string {
	sum := md5.Sum(body) // #nosec G401 -- S3 computes an ETag as an MD5 digest
	return hex.EncodeToString(sum[:])
}

// do records a call, asks m.Fault which fault to inject, and runs done if the fault permits.
func (m *MemoryBucket) do(ctx context.Context, call Call, done func() error) error {
	m.mu.Lock()
	m.calls = append(m.calls, call)
	fault := NoFault
	if m.Fault != nil {
		fault = m.Fault(call)
	}
	m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	run := func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		return done()
	}
	switch {
	case fault == FaultBeforeCall:
		return ErrFault
	case fault == FaultAfterCall:
		_ = run()
		return ErrFault
	case fault == FaultHang:
		<-ctx.Done()
		return ctx.Err()
	case fault == FaultLostPut && call.Method == "Put":
		return nil
	}
	return run()
}

// Get implements bucket.Bucket.
func (m *MemoryBucket) Get(ctx context.Context, name string, limit int64) (body []byte, tag string, err error) {
	err = m.do(ctx, Call{"Get", name}, func() error {
		there, is := m.objects[name]
		switch {
		case !is:
			return fmt.Errorf("reading %s: %w", name, bucket.ErrNotFound)
		case int64(len(there)) > limit:
			return fmt.Errorf("reading %s: %w", name, bucket.ErrTooLarge)
		}
		body, tag = bytes.Clone(there), m.tag(name)
		return nil
	})
	return body, tag, err
}

// Size implements bucket.Bucket.
func (m *MemoryBucket) Size(ctx context.Context, name string) (size int64, err error) {
	err = m.do(ctx, Call{"Size", name}, func() error {
		body, is := m.objects[name]
		if !is {
			return fmt.Errorf("reading %s: %w", name, bucket.ErrNotFound)
		}
		size = int64(len(body))
		return nil
	})
	return size, err
}

// Put implements bucket.Bucket.
func (m *MemoryBucket) Put(ctx context.Context, name string, body []byte, _ bucket.Attributes, condition bucket.Condition) error {
	return m.do(ctx, Call{"Put", name}, func() error {
		conditional := condition != bucket.Condition{}
		if m.RefusesConditions && conditional {
			return bucket.ErrConditionsUnsupported
		}
		tag := ""
		if _, is := m.objects[name]; is {
			tag = m.tag(name)
		}
		ignored := m.IgnoresIfAbsent && condition == bucket.IfAbsent() || m.IgnoresIfTag && conditional && condition != bucket.IfAbsent()
		if !ignored && !condition.Holds(tag) {
			return fmt.Errorf("writing %s: %w", name, bucket.ErrPreconditionFailed)
		}
		m.set(name, bytes.Clone(body))
		if m.OnPut != nil {
			m.OnPut(name, m.objects)
		}
		return nil
	})
}
