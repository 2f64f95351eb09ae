package limits

import "sync"

// slots bounds how much of something goes on at once.
type slots struct {
	limit int

	mu    sync.Mutex // guards what follows
	taken int
	held  map[string]int // by whom; no zeros
}

func newSlots(limit int) *slots { return &slots{limit: limit, held: make(map[string]int)} }

// take takes a slot for somebody, if there is one.
func (s *slots) take(who string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.add(who, s.limit)
}

// TakeShare is take, but nobody gets more than are left for all others: however
// many somebody opens, the next one who comes finds some.
func (s *slots) TakeShare(who string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.add(who, s.limit-s.taken)
}

// add takes a slot unless all are taken or somebody holds that many; the caller
// holds mu.
func (s *slots) add(who string, most int) bool {
	if s.taken >= s.limit || s.held[who] >= most {
		return false
	}
	s.taken++
	s.held[who]++
	return true
}

// Release gives a slot back.
func (s *slots) Release(who string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken--
	if s.held[who]--; s.held[who] == 0 {
		delete(s.held, who)
	}
}

// InUse is the number of slots that are taken.
func (s *slots) InUse() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken
}
