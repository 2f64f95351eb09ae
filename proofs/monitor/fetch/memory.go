package fetch

import (
	"context"

	"golang.org/x/sync/semaphore"
)

// smallAnswer is the size in bytes below which an answer does not count towards an AnswerLimiter.
const smallAnswer = 1 << 20

// AnswerLimiter limits how many large answers, of 1 MiB or more each, are in memory at once. It is
// safe for concurrent use.
type AnswerLimiter struct{ answers *semaphore.Weighted }

// NewAnswerLimiter returns an AnswerLimiter that allows the given number of large answers.
func NewAnswerLimiter(answers int64) *AnswerLimiter {
	return &AnswerLimiter{semaphore.NewWeighted(answers)}
}

// AnswerSlot lets one task hold large answers in memory, as part of an AnswerLimiter. Only one
// goroutine may use it.
type AnswerSlot struct {
	limit *semaphore.Weighted
	taken bool
}

type slotKey struct{}

// WithSlot returns a context for one task, and the task's slot. The first large answer that the
// task receives waits until the slot can be acquired; later answers share the slot. The caller must
// release the slot once the task no longer holds its answers.
func (m *AnswerLimiter) WithSlot(ctx context.Context) (context.Context, *AnswerSlot) {
	s := &AnswerSlot{limit: m.answers}
	return context.WithValue(ctx, slotKey{}, s), s
}

// InUse reports whether the slot is acquired because the task has received a large answer.
func (s *AnswerSlot) InUse() bool { return s.taken }

// Release frees the slot if it was acquired.
func (s *AnswerSlot) Release() {
	if s.taken {
		s.limit.Release(1)
		s.taken = false
	}
}

// WaitForSlot blocks until it has acquired the AnswerSlot in ctx for an answer of size bytes. It
// returns at once if the answer is not large, if ctx has no slot, or if the slot is already
// acquired.
func WaitForSlot(ctx context.Context, size int64) error {
	if size < smallAnswer {
		return nil
	}
	s, _ := ctx.Value(slotKey{}).(*AnswerSlot)
	if s == nil || s.taken {
		return nil
	}
	err := s.limit.Acquire(ctx, 1)
	s.taken = err == nil
	return err
}
