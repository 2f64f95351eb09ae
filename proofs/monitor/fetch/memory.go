package fetch

import (
	"context"

	"golang.org/x/sync/semaphore"
)

// smallAnswer is the length in bytes up to which an answer needs no share of an AnswerLimit.
const smallAnswer = 1 << 20

// AnswerLimit limits how many large answers, of more than 1 MiB each, are in memory at once. An
// AnswerLimit is safe for concurrent use.
type AnswerLimit struct{ answers *semaphore.Weighted }

// NewAnswerLimit returns an AnswerLimit with room for this number of large answers.
func NewAnswerLimit(answers int64) *AnswerLimit { return &AnswerLimit{semaphore.NewWeighted(answers)} }

// AnswerSlot is one task's share of an AnswerLimit. It belongs to one goroutine.
type AnswerSlot struct {
	of    *semaphore.Weighted
	taken bool
}

type shareKey struct{}

// WithSlot returns a context for one task. The task's first large answer waits until there is
// room, and its later answers use the same room. The caller must release the share when the
// task no longer holds its answers.
func (m *AnswerLimit) WithSlot(ctx context.Context) (context.Context, *AnswerSlot) {
	s := &AnswerSlot{of: m.answers}
	return context.WithValue(ctx, shareKey{}, s), s
}

// InUse reports whether the share holds room because the task has received a large answer.
func (s *AnswerSlot) InUse() bool { return s.taken }

// Release frees the room that the share has taken.
func (s *AnswerSlot) Release() {
	if s.taken {
		s.of.Release(1)
		s.taken = false
	}
}

// WaitForSlot waits for room for an answer of this size in bytes, if it is large. It does not
// wait if the context has no share or the share already has its room.
func WaitForSlot(ctx context.Context, size int64) error {
	if size < smallAnswer {
		return nil
	}
	s, _ := ctx.Value(shareKey{}).(*AnswerSlot)
	if s == nil || s.taken {
		return nil
	}
	err := s.of.Acquire(ctx, 1)
	s.taken = err == nil
	return err
}
