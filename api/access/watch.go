package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// watch is the token store as the server sees it. It looks at the file's metadata
// for every request and reads the file when they have changed. None is missed: each
// command makes the file longer, so that two within one tick of the file system's
// clock differ in size.
type watch struct {
	dir  string
	file string // in dir
	log  *slog.Logger
	now  func() time.Time

	reading sync.Mutex // held while the file is read
	table   atomic.Pointer[tokenTable]
}

// tokenTable is the tokens at one time. It never changes.
type tokenTable struct {
	exists bool // there is a token file, or was one
	// info is that of the file that was read; nil if there is none, and if it could
	// not be read: then the next request tries again.
	info   fs.FileInfo
	tokens map[string]*knownToken // by id
	fault  error                  // why nobody is let in
}

// knownToken is a token with what it is for.
type knownToken struct {
	Token
	identity Identity
}

// openWatch reads the token store for the first time. Later faults let nobody in;
// this one is returned, for whoever starts the server to see.
func openWatch(config Config) (*watch, error) {
	w := &watch{dir: config.Dir, file: filepath.Join(config.Dir, tokensFile), log: config.Log, now: config.Now}
	_, err := os.Lstat(w.dir) // a link that leads nowhere is a folder that is gone
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("looking for tokens: %w", err)
	}
	table := w.read(err == nil)
	if table.fault != nil {
		return nil, table.fault
	}
	w.table.Store(table)
	return w, nil
}

// current is the tokens as they are now.
func (w *watch) current() *tokenTable {
	if table := w.table.Load(); table.isOf(os.Lstat(w.file)) {
		return table
	}
	w.reading.Lock()
	defer w.reading.Unlock()
	before := w.table.Load()
	if before.isOf(os.Lstat(w.file)) {
		return before // another request was quicker
	}
	after := w.read(before.exists)
	w.table.Store(after)
	w.tell(before, after)
	return after
}

// exist reports whether there are tokens, or were. Once there were, that stays.
func (w *watch) exist() bool { return w.table.Load().exists || w.current().exists }

// isOf reports whether a table is that of the file that has been looked at.
func (t *tokenTable) isOf(info fs.FileInfo, err error) bool {
	if err != nil {
		return !t.exists && errors.Is(err, fs.ErrNotExist)
	}
	return t.info != nil && os.SameFile(t.info, info) && t.info.ModTime().Equal(info.ModTime()) &&
		t.info.Size() == info.Size() && t.info.Mode() == info.Mode()
}

// read reads the file. existed says that there was one: then it must still be
// there.
func (w *watch) read(existed bool) *tokenTable {
	tokens, info, err := readTokens(w.dir)
	if errors.Is(err, fs.ErrNotExist) {
		if !existed {
			return &tokenTable{}
		}
		err = fmt.Errorf("%s is gone: restore it, or make a token; only without its folder, and after a new start, nothing is asked for", w.file)
	}
	table := &tokenTable{exists: true, info: info, fault: err, tokens: make(map[string]*knownToken, len(tokens))}
	for _, t := range tokens {
		table.tokens[t.ID] = &knownToken{t, Identity{Actor: t.Name, Grants: t.Grants}}
	}
	return table
}

// tell logs what has become of the tokens, once.
func (w *watch) tell(before, after *tokenTable) {
	switch {
	case after.fault == nil:
		w.log.Info("the tokens have changed", "now", after.summary(w.now()))
	case before.fault == nil || before.fault.Error() != after.fault.Error():
		w.log.Error("no token is accepted", "error", after.fault)
	}
}

// summary counts the tokens that hold.
func (t *tokenTable) summary(now time.Time) string {
	active := 0
	for _, k := range t.tokens {
		if k.State(now) == "active" {
			active++
		}
	}
	switch active {
	case 0:
		return "no token that holds"
	case 1:
		return "1 token"
	}
	return fmt.Sprintf("%d tokens", active)
}

// find is the token of that text. It takes as long for one that is unknown as for
// one that does not hold.
func (t *tokenTable) find(text string, now time.Time) (*knownToken, error) {
	if t.fault != nil {
		return nil, fmt.Errorf("no token is accepted: %w", t.fault)
	}
	id, ok := tokenID(text)
	if !ok {
		return nil, errors.New("the token is malformed")
	}
	known, stored := t.tokens[id], Digest{}
	if known != nil {
		stored = known.SHA256
	}
	digest := digestOf(text)
	equal := subtle.ConstantTimeCompare(stored[:], digest[:]) == 1
	switch {
	case known == nil:
		return nil, fmt.Errorf("there is no token of id %s", id)
	case !equal:
		return nil, fmt.Errorf("the secret is not that of token %s", id)
	}
	if state := known.State(now); state != "active" {
		return nil, fmt.Errorf("token %s is %s", id, state)
	}
	return known, nil
}

func digestOf(text string) Digest { return sha256.Sum256([]byte(text)) }
