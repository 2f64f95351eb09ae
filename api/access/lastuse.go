package access

import (
	"context"
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

// lastUseEvery is the minimum time between two writes of the last-use times.
const lastUseEvery = time.Minute

// lastUses tracks when each token was last used. It is not durable: a crash loses up to a
// minute of uses, and nothing is written while the disk is full.
type lastUses struct {
	path   string
	shared SharedStore // if not nil, used instead of path
	log    *slog.Logger

	mu      sync.Mutex // guards times, changed, and written; never held during I/O
	times   map[string]time.Time
	changed bool      // whether times has changed since the last write
	written time.Time // zero if nothing has been written yet

	writing    sync.Mutex     // held while the times are being stored
	background sync.WaitGroup // tracks the writes to shared that are in progress
}

// lastUseList is the content of the last-use file. It maps the ID of each token to the time when
// the token was last used.
type lastUseList struct {
	LastUse map[string]time.Time `json:"last_use"`
}

func openLastUses(config Config) *lastUses {
	l := &lastUses{path: filepath.Join(config.Dir, lastUseFile), shared: config.SharedStore, log: config.Logger, times: make(map[string]time.Time)}
	if l.shared != nil {
		return l
	}
	times, err := readLastUses(l.path)
	if err != nil {
		l.log.Warn("cannot read the tokens' last-use times; the stored times are lost", "error", err)
	}
	maps.Copy(l.times, times)
	return l
}

// readLastUses reads a last-use file. A missing file is not an error.
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
	text, err := io.ReadAll(io.LimitReader(file, maxTokensFile)) // a last-use file is always shorter than the tokens file
	if err == nil {
		err = json.Unmarshal(text, &list)
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return list.LastUse, nil
}

// recordUse records that the token with the given ID was used at the time now. If at least lastUseEvery
// has passed since the last write, it also stores the times of all tokens.
func (l *lastUses) recordUse(id string, now time.Time, table *tokenTable) {
	l.mu.Lock()
	l.times[id] = now.UTC().Truncate(time.Second)
	l.changed = true
	due := l.written.IsZero() || now.Sub(l.written) >= lastUseEvery
	if due {
		l.written = now
	}
	l.mu.Unlock()
	switch {
	case due && l.shared != nil: // in a goroutine, because a request must not wait for the database
		l.background.Go(func() { l.share(table) })
	case due:
		l.write(table)
	}
}

// close stores the last-use times a final time. If that fails, it only logs the error.
func (l *lastUses) close(table *tokenTable) {
	if l.shared == nil {
		l.write(table)
		return
	}
	l.background.Wait()
	l.share(table)
}

// share merges this server's last-use times into the shared store. If another server changes the
// stored times concurrently, the merge fails, and the next call tries again.
func (l *lastUses) share(table *tokenTable) {
	l.writing.Lock()
	defer l.writing.Unlock()
	if table.fault != nil {
		return
	}
	l.mu.Lock()
	own := maps.Clone(l.times)
	due := l.changed
	l.changed = false
	l.mu.Unlock()
	if !due {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), MaxTokenStaleness)
	defer cancel()
	if err := storeLastUses(ctx, l.shared, own, table); err != nil {
		l.log.Warn("cannot store the tokens' last-use times", "error", err)
		l.mu.Lock()
		l.changed = true
		l.mu.Unlock()
	}
}

// storeLastUses stores each time in own that is later than the time in the shared store. It drops the
// times of tokens that no longer exist.
func storeLastUses(ctx context.Context, shared SharedStore, own map[string]time.Time, table *tokenTable) error {
	times, version, err := loadLastUses(ctx, shared)
	if err != nil {
		return err
	}
	if times == nil {
		times = make(map[string]time.Time)
	}
	for id, at := range own {
		if at.After(times[id]) {
			times[id] = at
		}
	}
	maps.DeleteFunc(times, func(id string, _ time.Time) bool { return table.tokens[id] == nil })
	text, err := json.Marshal(lastUseList{times})
	if err != nil {
		return err
	}
	return shared.SetValue(ctx, sharedLastUses, version, text)
}

func loadLastUses(ctx context.Context, shared SharedStore) (times map[string]time.Time, version int64, err error) {
	text, version, err := shared.Value(ctx, sharedLastUses)
	if err != nil || version == 0 {
		return nil, 0, err
	}
	var list lastUseList
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, version, fmt.Errorf("parsing the tokens' last-use times in the database: %w", err)
	}
	return list.LastUse, version, nil
}

// write writes the last-use file if any time has changed, leaving out tokens that no longer exist.
// It also restores the reserved disk space if a revocation has used it.
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
		l.log.Warn("cannot store the tokens' last-use times", "error", err)
	}
	if err := (TokenStore{Dir: filepath.Dir(l.path)}).keepReserve(); err != nil {
		l.log.Warn("cannot reserve disk space for revoking tokens", "error", err)
	}
}
