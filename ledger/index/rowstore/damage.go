package rowstore

import (
	"errors"
	"sync"

	engine "github.com/cockroachdb/pebble/v2"
)

// ErrRebuilding: the index was found damaged, and another is about to take its place,
// which begins empty.
var ErrRebuilding = errors.New("index: it was found damaged and is being replaced")

// usage counts the users of the engine, so that it can be replaced when there are none.
type usage struct {
	mu      sync.Mutex // held briefly, for what follows
	idle    sync.Cond  // of mu: the engine has no users any more
	users   int
	running int   // followers that run
	refused error // why no one may begin to use the engine; nil if it may be used
	// rebuilds is how often the engine was replaced: once at most, for a disk that
	// damages one index after the other is not to be worked on for ever.
	rebuilds int
}

// Acquire keeps the engine as it is until it is released, and says how many were
// replaced before it.
func (s *Store) Acquire() (replaced int, err error) {
	s.usage.mu.Lock()
	defer s.usage.mu.Unlock()
	if s.usage.refused == nil {
		s.usage.users++
	}
	return s.usage.rebuilds, s.usage.refused
}

func (s *Store) Release() {
	s.usage.mu.Lock()
	defer s.usage.mu.Unlock()
	if s.usage.users--; s.usage.users == 0 {
		s.usage.idle.Broadcast()
	}
}

// Refused is why nobody may begin to use the engine, and who does should end; nil if
// everybody may.
func (s *Store) Refused() error {
	s.usage.mu.Lock()
	defer s.usage.mu.Unlock()
	return s.usage.refused
}

// refuse sets what refused says.
func (s *Store) refuse(err error) {
	s.usage.mu.Lock()
	defer s.usage.mu.Unlock()
	s.usage.refused = err
}

// Rebuilds is how often the index was found damaged since it was opened, and replaced.
func (s *Store) Rebuilds() int {
	s.usage.mu.Lock()
	defer s.usage.mu.Unlock()
	return s.usage.rebuilds
}

// CountRunning notes that a follower has begun to run or has ended.
func (s *Store) CountRunning(running int) {
	s.usage.mu.Lock()
	defer s.usage.mu.Unlock()
	s.usage.running += running
}

// ErrDamaged: what is stored cannot be what this build has written.
var ErrDamaged = errors.New("index: damaged")

// IsCorruption reports whether an error of the engine says that its files are damaged.
func IsCorruption(err error) bool { return engine.IsCorruptionError(err) }

// ReportDamage has the index replaced that was found damaged, the one before which so many
// were replaced, and reports whether it is going to be or was: the followers then begin
// anew. It may be called from anywhere. In any case the next start rebuilds the index
// if this process does not come to it.
func (s *Store) ReportDamage(err error, replaced int) bool {
	s.usage.mu.Lock()
	defer s.usage.mu.Unlock()
	switch {
	case errors.Is(s.usage.refused, ErrRebuilding), s.usage.rebuilds > replaced:
		return true
	case s.config.ReadOnly, s.usage.refused != nil, s.usage.rebuilds > 0, s.usage.running == 0:
		return false
	}
	s.usage.refused = ErrRebuilding
	s.usage.rebuilds++
	s.config.Log.Error("the index is damaged, it is built anew", "dir", s.config.Dir, "error", err)
	s.rebuilding.Go(s.rebuild)
	return true
}

// rebuild replaces the engine by an empty one when it has no users any more: no follower
// either.
func (s *Store) rebuild() {
	s.usage.mu.Lock()
	for s.usage.users > 0 {
		s.usage.idle.Wait()
	}
	s.usage.mu.Unlock()
	err := s.reopen()
	if err != nil {
		s.config.Log.Error("the damaged index could not be replaced", "dir", s.config.Dir, "error", err)
	}
	s.config.Replaced(func() { s.refuse(err) })
}

// reopen empties the folder and opens the engine again. Nobody uses it.
func (s *Store) reopen() error {
	if err := s.engine.Close(); err != nil {
		s.config.Log.Info("closing the damaged index", "error", err)
	}
	s.engine = nil
	if err := s.config.folder().empty(); err != nil {
		return err
	}
	return s.openEngine()
}
