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

// watch is the server's view of a token store in a folder. For every request, it checks the
// metadata of the tokens file, and reads the file if the metadata has changed. Creating or revoking
// a token makes the file longer. Therefore, even two changes within one tick of the file system's
// clock are noticed.
type watch struct {
	dir  string
	file string // path of the tokens file
	log  *slog.Logger
	now  func() time.Time

	reading sync.Mutex // held while the file is being read
	table   atomic.Pointer[tokenTable]
}

// tokenTable holds all tokens as of one point in time. It is immutable.
type tokenTable struct {
	exists bool // a tokens file exists or has existed
	// info describes the file that was read. It is nil if the file is missing or unreadable;
	// the next request then tries again.
	info   fs.FileInfo
	tokens map[string]*knownToken // keyed by ID
	fault  error                  // why no token is accepted; nil if tokens are accepted
}

// knownToken is a token and the identity of a caller that uses it.
type knownToken struct {
	Token
	identity Identity
}

// tokenView is the server's view of its token store.
type tokenView interface {
	// current returns the current tokens.
	current() *tokenTable
	// exist reports whether tokens exist or have existed.
	exist() bool
	close()
}

// openTokens opens the configured token store.
func openTokens(config Config) (tokenView, error) {
	if config.SharedStore != nil {
		return openPoll(config)
	}
	w, err := openWatch(config)
	return w, err
}

func (w *watch) close() {}

// openWatch reads the token store for the first time. It returns an error if the store cannot be
// read. If a later read fails, the server accepts no token until a read succeeds.
func openWatch(config Config) (*watch, error) {
	w := &watch{dir: config.Dir, file: filepath.Join(config.Dir, tokensFile), log: config.Logger, now: config.Now}
	_, err := os.Lstat(w.dir) // not Stat, because a dangling symbolic link must not look like a store that does not exist
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("checking for the token folder: %w", err)
	}
	table := w.read(err == nil)
	if table.fault != nil {
		return nil, table.fault
	}
	w.table.Store(table)
	return w, nil
}

// current returns the current tokens. It reads the file only if it has changed.
func (w *watch) current() *tokenTable {
	if table := w.table.Load(); table.matches(os.Lstat(w.file)) {
		return table
	}
	w.reading.Lock()
	defer w.reading.Unlock()
	before := w.table.Load()
	if before.matches(os.Lstat(w.file)) {
		return before // another request has read the file in the meantime
	}
	after := w.read(before.exists)
	w.table.Store(after)
	logChange(w.log, before, after, w.now())
	return after
}

// exist reports whether tokens exist, or have existed since the server started.
func (w *watch) exist() bool { return w.table.Load().exists || w.current().exists }

// matches reports whether the table still matches the tokens file. info and err are the results of
// calling os.Lstat on the file.
func (t *tokenTable) matches(info fs.FileInfo, err error) bool {
	if err != nil {
		return !t.exists && errors.Is(err, fs.ErrNotExist)
	}
	return t.info != nil && os.SameFile(t.info, info) && t.info.ModTime().Equal(info.ModTime()) &&
		t.info.Size() == info.Size() && t.info.Mode() == info.Mode()
}

// read reads the tokens file into a new table. If the file is missing although it existed before,
// the table accepts no token.
func (w *watch) read(existed bool) *tokenTable {
	tokens, info, err := readTokens(w.dir)
	if errors.Is(err, fs.ErrNotExist) {
		if !existed {
			return &tokenTable{}
		}
		err = fmt.Errorf("%s is missing: restore it, or create a token; to require no tokens, remove the token folder and restart the server", w.file)
	}
	table := newTable(tokens, err)
	table.info = info
	return table
}

// newTable returns a table of tokens. If fault is not nil, the table accepts none of them.
func newTable(tokens []Token, fault error) *tokenTable {
	table := &tokenTable{exists: true, fault: fault, tokens: make(map[string]*knownToken, len(tokens))}
	for _, t := range tokens {
		table.tokens[t.ID] = &knownToken{t, Identity{Actor: t.Name, Grants: t.Grants}}
	}
	return table
}

// logChange logs the number of active tokens in after. If after accepts no token, logChange logs
// the reason instead, unless before had the same reason.
func logChange(log *slog.Logger, before, after *tokenTable, now time.Time) {
	switch {
	case after.fault == nil:
		log.Info("the tokens have changed", "now", after.summary(now))
	case before.fault == nil || before.fault.Error() != after.fault.Error():
		log.Error("all tokens are rejected", "error", after.fault)
	}
}

// summary describes the number of active tokens, for example "3 tokens".
func (t *tokenTable) summary(now time.Time) string {
	active := 0
	for _, k := range t.tokens {
		if k.State(now) == "active" {
			active++
		}
	}
	switch active {
	case 0:
		return "no valid token"
	case 1:
		return "1 token"
	}
	return fmt.Sprintf("%d tokens", active)
}

// find returns the active token with the given text. An unknown ID takes the same time as a wrong
// secret, so that timing does not reveal which IDs exist.
func (t *tokenTable) find(text string, now time.Time) (*knownToken, error) {
	if t.fault != nil {
		return nil, fmt.Errorf("all tokens are rejected: %w", t.fault)
	}
	id, ok := tokenID(text)
	if !ok {
		return nil, errors.New("the token is malformed")
	}
	known, stored := t.tokens[id], TokenDigest{}
	if known != nil {
		stored = known.SHA256
	}
	digest := digestOf(text)
	equal := subtle.ConstantTimeCompare(stored[:], digest[:]) == 1
	switch {
	case known == nil:
		return nil, fmt.Errorf("no token has the id %s", id)
	case !equal:
		return nil, fmt.Errorf("the secret does not belong to token %s", id)
	}
	if state := known.State(now); state != "active" {
		return nil, fmt.Errorf("token %s is %s", id, state)
	}
	return known, nil
}

func digestOf(text string) TokenDigest { return sha256.Sum256([]byte(text)) }
