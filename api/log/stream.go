package log

import (
	"sync"
	"time"

	"colophon/ledger"
)

// streams holds the stream of each ledger.
type streams struct {
	frames *frames
	ending chan struct{} // closed when the server shuts down
	once   sync.Once

	mu       sync.Mutex // guards the map
	byLedger map[string]*stream
}

func newStreams() *streams {
	return &streams{frames: newFrames(), ending: make(chan struct{}), byLedger: make(map[string]*stream)}
}

// end ends the streams of all followers. It can be called more than once.
func (s *streams) end() { s.once.Do(func() { close(s.ending) }) }

// open creates the stream of a ledger. It must be called before the ledger accepts writes.
func (s *streams) open(l *ledger.Ledger) *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	opened := &stream{frozen: l.Info().Frozen}
	s.byLedger[l.Name()] = opened
	return opened
}

// stream returns the stream of a ledger.
func (s *streams) stream(l *ledger.Ledger) *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byLedger[l.Name()]
}

// stream notifies the followers of one ledger of new events. A commit costs almost nothing
// while no follower waits. Notifications are at least announceEvery apart.
type stream struct {
	mu         sync.Mutex // guards the fields below
	changes    chan struct{}
	announcing bool      // a timer is running that will close changes
	announced  time.Time // the time of the last notification
	frozen     bool      // no more events will follow
}

const announceEvery = 100 * time.Millisecond

// changed returns a channel that is closed when there might be new events, and reports whether
// the ledger is frozen.
func (s *stream) changed() (changes <-chan struct{}, frozen bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changes == nil {
		s.changes = make(chan struct{})
	}
	return s.changes, s.frozen
}

// committed notifies the followers of new events. It never blocks.
func (s *stream) committed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changes == nil || s.announcing {
		return
	}
	s.announcing = true
	time.AfterFunc(announceEvery-time.Since(s.announced), s.announce)
}

// freeze notifies the followers that no more events will follow.
func (s *stream) freeze() {
	s.mu.Lock()
	s.frozen = true
	s.mu.Unlock()
	s.committed()
}

func (s *stream) announce() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.changes)
	s.changes, s.announcing, s.announced = nil, false, time.Now()
}
