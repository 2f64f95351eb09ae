package rowstore

import (
	"errors"
	"sync"

	engine "github.com/cockroachdb/pebble/v2"
)

// ErrRebuilding is returned while a damaged index is being replaced by an empty one.
var ErrRebuilding = errors.New("index: the index is damaged and is being replaced")

// usage counts the users of the engine, so that the engine can be replaced when there are none.
type usage struct {
	mu      sync.Mutex // guards the fields below; held only briefly
	idle    sync.Cond  // signalled when users becomes 0
	users   int
	running int   // number of running followers
	refused error // what Acquire returns; nil if the engine can be used
	// rebuilds counts how often the engine was replaced. It is replaced at most once, so that
	// a failing disk does not cause endless rebuilds.
	rebuilds int
}

// Acquire prevents the engine from being replaced until Release is called. It returns how often the
// engine has been replaced so far. If Acquire returns an error, the caller must not call Release.
func (s *Store) Acquire() (replaced int, err error) {
	s.usage.mu.Lock()
	defer s.usage.mu.Unlock()
	if s.usage.refused == nil {
		s.usage.users++
	}
	return s.usage.rebuilds, s.usage.refused
}

// Release ends the use that a successful Acquire began.
func (s *Store) Release() {
	s.usage.mu.Lock()
	defer s.usage.mu.Unlock()
	if s.usage.users--; s.usage.users == 0 {
		s.usage.idle.Broadcast()
	}
}

// CheckAvailable returns the error that Acquire would return now, or nil. If it is not nil, current
// users of the engine should stop.
func (s *Store) CheckAvailable() error {
	s.usage.mu.Lock()
	defer s.usage.mu.Unlock()
	return s.usage.refused
}

// refuse sets the error that Acquire and CheckAvailable return.
func (s *Store) refuse(err error) {
	s.usage.mu.Lock()
	defer s.usage.mu.Unlock()
	s.usage.refused = err
}

// RebuildCount returns how often the index was found damaged and replaced since it was opened.
func (s *Store) RebuildCount() int {
	s.usage.mu.Lock()
	defer s.usage.mu.Unlock()
	return s.usage.rebuilds
}

// AddRunningFollowers adds running, which is 1 or -1, to the number of running followers.
func (s *Store) AddRunningFollowers(running int) {
	s.usage.mu.Lock()
	defer s.usage.mu.Unlock()
	s.usage.running += running
}

// ErrDamaged means that stored rows are invalid: no fold of this build can have written them.
var ErrDamaged = errors.New("index: the stored rows are damaged")

// IsCorruption reports whether an error of the engine means that its files are damaged.
func IsCorruption(err error) bool { return engine.IsCorruptionError(err) }

// ReportDamage starts to replace a damaged index with an empty one. replaced is the number
// that Acquire returned to the caller that found the damage. ReportDamage returns true if the
// index is being replaced or has been replaced since then. Followers then start again with the
// empty index. It returns false if this process will not replace the index. In that case, the
// next start of the process replaces it, if the damage is marked or is found again.
// ReportDamage can be called from any goroutine.
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
	s.config.Logger.Error("the index is damaged and will be rebuilt", "dir", s.config.Dir, "error", err)
	s.rebuilding.Go(s.rebuild)
	return true
}

// rebuild waits until the engine has no users, including followers, and replaces the index with
// an empty one.
func (s *Store) rebuild() {
	s.usage.mu.Lock()
	for s.usage.users > 0 {
		s.usage.idle.Wait()
	}
	s.usage.mu.Unlock()
	err := s.reopen()
	if err != nil {
		s.config.Logger.Error("cannot replace the damaged index; restart the server", "dir", s.config.Dir, "error", err)
	}
	s.config.OnReplaceAttempt(func() { s.refuse(err) })
}

// reopen empties the folder and opens the engine again. The engine must have no users.
func (s *Store) reopen() error {
	if err := s.engine.Close(); err != nil {
		s.config.Logger.Info("cannot close the damaged index", "error", err)
	}
	s.engine, s.lastKeyspace = nil, 0
	if err := s.config.folder().empty(); err != nil {
		return err
	}
	return s.openEngine()
}
