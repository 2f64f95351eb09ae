package api

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

// spool holds results for a client that is not reading yet: in memory up to a
// bound, beyond it in a temporary file. It has one writer and one reader.
type spool struct {
	limit int
	dir   string
	room  func() error // nil while a file may grow

	mu       sync.Mutex // guards what follows
	changed  sync.Cond
	memory   []byte   // comes before what is in the file
	file     *os.File // nil until memory has been full
	from, to int64    // the unread part of the file
	err      error    // why nothing more can be written; what came before can be read
	finished bool     // nothing more will be written
	broken   bool     // nothing more will be read
}

// maxSpool bounds the unread results of one batch, in bytes.
const maxSpool = 1 << 30

func newSpool(limit int, dir string, room func() error) *spool {
	s := &spool{limit: limit, dir: dir, room: room}
	s.changed.L = &s.mu
	return s
}

// write never waits for the reader. After an error nothing more is taken, so
// that results are missing at the end only, and drain returns that error.
func (s *spool) write(b []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.changed.Signal()
	if s.err != nil || s.broken {
		return s.err
	}
	if s.from == s.to && len(s.memory)+len(b) <= s.limit {
		s.memory = append(s.memory, b...)
		return nil
	}
	if s.err = s.writeFile(b); s.err != nil {
		s.finished = true
	}
	return s.err
}

func (s *spool) writeFile(b []byte) error {
	if err := s.room(); err != nil {
		return fmt.Errorf("spooling results: %w", err)
	}
	if s.to > maxSpool {
		return errors.New("spooling results: the client does not read them")
	}
	if s.file == nil {
		f, err := os.CreateTemp(s.dir, "colophon-batch-*")
		if err != nil {
			return fmt.Errorf("spooling results: %w", err)
		}
		s.file = f
	}
	if _, err := s.file.WriteAt(b, s.to); err != nil {
		return fmt.Errorf("spooling results: %w", err)
	}
	s.to += int64(len(b))
	return nil
}

// finish says that nothing more will be written.
func (s *spool) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finished = true
	s.changed.Signal()
}

// drain copies everything to w until the spool is finished and empty, flushing
// when there is nothing more at hand, and removes the file.
func (s *spool) drain(w io.Writer, flush func() error) (err error) {
	defer func() { err = errors.Join(err, s.discard()) }()
	var buffer []byte
	for {
		b, idle, err := s.next(buffer)
		if err != nil {
			return err
		}
		if b == nil {
			return nil
		}
		if _, err := w.Write(b); err != nil {
			return err
		}
		if idle {
			if err := flush(); err != nil {
				return err
			}
		}
		buffer = b[:0]
	}
}

// next waits for something to read; nil when there will be nothing more. idle
// says that nothing is left for now. buffer is used again.
func (s *spool) next(buffer []byte) (b []byte, idle bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.memory) == 0 && s.from == s.to && !s.finished {
		s.changed.Wait()
	}
	switch {
	case len(s.memory) > 0:
		b, s.memory = s.memory, buffer
	case s.from < s.to:
		b = make([]byte, min(int64(s.limit), s.to-s.from))
		if _, err := s.file.ReadAt(b, s.from); err != nil {
			return nil, false, fmt.Errorf("reading spooled results: %w", err)
		}
		if s.from += int64(len(b)); s.from == s.to {
			s.from, s.to = 0, 0
		}
	}
	if b == nil {
		return nil, true, s.err
	}
	return b, len(s.memory) == 0 && s.from == s.to, nil
}

// discard drops what was not read.
func (s *spool) discard() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken, s.memory = true, nil
	if s.file == nil {
		return nil
	}
	return errors.Join(s.file.Close(), os.Remove(s.file.Name()))
}
