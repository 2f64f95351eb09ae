package api

import (
	"sync"
	"time"

	"golang.org/x/time/rate"

	"colophon/ledger"
)

// streams are the live events of all ledgers.
type streams struct {
	frames *frames
	ending chan struct{} // closed when the server ends
	once   sync.Once

	mu sync.Mutex // guards what follows
	of map[string]*stream
}

func newStreams() *streams {
	return &streams{frames: newFrames(), ending: make(chan struct{}), of: make(map[string]*stream)}
}

// end ends all followers.
func (s *streams) end() { s.once.Do(func() { close(s.ending) }) }

// open begins the stream of a ledger that nobody writes to yet.
func (s *streams) open(l *ledger.Ledger) *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	opened := &stream{frozen: l.Info().Frozen}
	s.of[l.Name()] = opened
	return opened
}

// stream is that of a ledger.
func (s *streams) stream(l *ledger.Ledger) *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of[l.Name()]
}

// stream tells the followers of one ledger that there may be more events. While
// nobody waits for them, a commit costs next to nothing; and however many wait, they
// are told not more often than every announceEvery.
type stream struct {
	mu         sync.Mutex // guards what follows
	news       chan struct{}
	announcing bool      // news is about to be closed
	announced  time.Time // last
	frozen     bool      // there will be no more events than there are
}

const announceEvery = 100 * time.Millisecond

// changed gives a channel that is closed when there may be more events than there
// are now, and says whether there will ever be.
func (s *stream) changed() (news <-chan struct{}, frozen bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.news == nil {
		s.news = make(chan struct{})
	}
	return s.news, s.frozen
}

// committed says that there are more events. It never waits.
func (s *stream) committed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.news == nil || s.announcing {
		return
	}
	s.announcing = true
	time.AfterFunc(announceEvery-time.Since(s.announced), s.announce)
}

// freeze says that the events there are will be all.
func (s *stream) freeze() {
	s.mu.Lock()
	s.frozen = true
	s.mu.Unlock()
	s.committed()
}

func (s *stream) announce() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.news)
	s.news, s.announcing, s.announced = nil, false, time.Now()
}

// followPace shares out how much is sent to all followers together.
type followPace struct{ limiter *rate.Limiter }

func newFollowPace(perSecond int64) *followPace {
	return &followPace{rate.NewLimiter(rate.Limit(perSecond), int(max(perSecond/8, 4*blockBytes)))}
}

// pay says how long a follower who has been sent so many bytes has to wait. Those
// who pay wait one after the other, and each has been sent a block: so all get as
// much.
func (p *followPace) pay(bytes int) time.Duration {
	now := time.Now()
	return p.limiter.ReserveN(now, min(bytes, p.limiter.Burst())).DelayFrom(now)
}
