package limits

import "sync"

// slots limits how many operations of one kind are in progress at the same time.
type slots struct {
	limit int

	mu    sync.Mutex // guards the fields below
	taken int
	held  map[string]int // number of slots of each holder; never 0
}

func newSlots(limit int) *slots { return &slots{limit: limit, held: make(map[string]int)} }

// take takes a slot for the given holder, and reports whether one was free.
func (s *slots) take(who string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.add(who, s.limit)
}

// TakeShare is like take, except that a holder gets at most half of the remaining slots, so that
// the next holder always finds a free one.
func (s *slots) TakeShare(who string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.add(who, s.limit-s.taken)
}

// add takes a slot for the given holder and reports whether it did. It takes none if all slots
// are taken or the holder already has the maximum number, most. The caller must hold mu.
func (s *slots) add(who string, most int) bool {
	if s.taken >= s.limit || s.held[who] >= most {
		return false
	}
	s.taken++
	s.held[who]++
	return true
}

// Release frees one of the slots that the given holder has taken.
func (s *slots) Release(who string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken--
	if s.held[who]--; s.held[who] == 0 {
		delete(s.held, who)
	}
}

// InUse returns the number of slots that are taken.
func (s *slots) InUse() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken
}
