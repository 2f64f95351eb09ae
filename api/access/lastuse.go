package access

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"path/filepath"
	"sync"
	"time"
)

// lastUseEvery is the minimum time between two writes of the times of last use.
const lastUseEvery = time.Minute

// lastUses tracks when each token was last used. It is not durable: a crash loses up to a
// minute, and nothing is written while the disk is full.
type lastUses struct {
	path string
	log  *slog.Logger

	mu      sync.Mutex // guards the fields up to written; never held during I/O
	times   map[string]time.Time
	changed bool      // since the last write
	written time.Time // zero means not yet

	writing sync.Mutex // held while the file is written
}

// lastUseList is the content of the file of last uses, by token id.
type lastUseList struct {
	LastUse map[string]time.Time `json:"last_use"`
}

func openLastUses(config Config) *lastUses {
	l := &lastUses{path: filepath.Join(config.Dir, lastUseFile), log: config.Log, times: make(map[string]time.Time)}
	times, err := readLastUses(l.path)
	if err != nil {
		l.log.Warn("the times at which tokens were last used are lost", "error", err)
	}
	maps.Copy(l.times, times)
	return l
}

// readLastUses reads a file of last uses. A missing file is not an error.
func readLastUses(path string) (map[string]time.Time, error) {
	file, _, err := openRegular(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var list lastUseList
	text, err := io.ReadAll(io.LimitReader(file, maxTokensFile)) // always shorter than the tokens file
	if err == nil {
		err = json.Unmarshal(text, &list)
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return list.LastUse, nil
}

// note records a use of a token, and writes the file if lastUseEvery has passed.
func (l *lastUses) note(id string, now time.Time, table *tokenTable) {
	l.mu.Lock()
	l.times[id] = now.UTC().Truncate(time.Second)
	l.changed = true
	due := l.written.IsZero() || now.Sub(l.written) >= lastUseEvery
	if due {
		l.written = now
	}
	l.mu.Unlock()
	if due {
		l.write(table)
	}
}

// write writes the file if times have changed. It writes only tokens that exist. It restores
// the reserve if a revocation has used it.
func (l *lastUses) write(table *tokenTable) {
	l.writing.Lock()
	defer l.writing.Unlock()
	l.mu.Lock()
	if !l.changed {
		l.mu.Unlock()
		return
	}
	l.changed = false
	if table.fault == nil {
		maps.DeleteFunc(l.times, func(id string, _ time.Time) bool { return table.tokens[id] == nil })
	}
	list := lastUseList{maps.Clone(l.times)}
	l.mu.Unlock()
	text, err := json.Marshal(list)
	if err == nil {
		err = replaceFile(l.path, text, false)
	}
	if err != nil {
		l.log.Warn("cannot store the times at which tokens were last used", "error", err)
	}
	if err := (Store{Dir: filepath.Dir(l.path)}).keepReserve(); err != nil {
		l.log.Warn("cannot reserve disk space for revoking tokens", "error", err)
	}
}
