package api

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// bodyMemory bounds what the bodies that the server works on take, all together:
// their bytes, and what decoding makes of them. Content and bundles of entries that
// clients read count too, until they have been sent.
type bodyMemory struct {
	limit int64
	wait  time.Duration
	free  *semaphore.Weighted
	taken atomic.Int64 // for metrics
}

func newBodyMemory(limit int64, wait time.Duration) *bodyMemory {
	return &bodyMemory{limit: limit, wait: wait, free: semaphore.NewWeighted(limit)}
}

// share is what one body holds of the memory. It belongs to one goroutine at a time.
type share struct {
	memory *bodyMemory
	held   int64
}

// hold is a share for an answer of at most so many bytes, which is to be shrunk once
// its length is known.
func (s *Server) hold(ctx context.Context, most int64) (*share, error) {
	held := &share{memory: s.limits.memory}
	return held, held.take(ctx, most)
}

// take adds n bytes, or all there are if that is less, and waits for a bounded time
// if they are not free. What it holds already it goes on to hold.
func (s *share) take(ctx context.Context, n int64) error {
	m := s.memory
	n = min(n, m.limit)
	if !m.free.TryAcquire(n) {
		waiting, cancel := context.WithTimeout(ctx, m.wait)
		defer cancel()
		if err := m.free.Acquire(waiting, n); err != nil {
			if gone(ctx) {
				return err
			}
			return refuse(refusedMemory, http.StatusServiceUnavailable, m.wait,
				"the server has no memory left for bodies: %d bytes are under way; nothing of this one was taken, try again later", m.limit)
		}
	}
	s.held += n
	m.taken.Add(n)
	return nil
}

// shrink gives back what is held beyond n bytes.
func (s *share) shrink(n int64) {
	if back := s.held - n; back > 0 {
		s.held = n
		s.memory.taken.Add(-back)
		s.memory.free.Release(back)
	}
}

func (s *share) release() { s.shrink(0) }

// meter has a share grow with what is read.
type meter struct {
	ctx   context.Context
	body  io.Reader
	share *share
}

// meterStep bounds what is read before it is counted, in bytes.
const meterStep = 64 << 10

// Read implements io.Reader.
func (m meter) Read(p []byte) (int, error) {
	n, err := m.body.Read(p[:min(len(p), meterStep)])
	if n > 0 {
		if short := m.share.take(m.ctx, weight(p[:n])); short != nil {
			return 0, short
		}
	}
	return n, err
}

// weight is about what some of a body takes in memory while it is worked on: its
// bytes, and valueBytes for each value or name. Where there is one there is one of
// these signs; those within strings are not told apart.
func weight(b []byte) int64 {
	values := 0
	for _, sign := range [...]string{",", ":", "[", "{"} {
		values += bytes.Count(b, []byte(sign))
	}
	return int64(len(b) + valueBytes*values)
}

// valueBytes is what a decoded value takes beside its text.
const valueBytes = 24
