package access

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"colophon/internal/safefile"
	"colophon/storage"
)

// SharedStore keeps named values that several servers share. Every server picks up a change to the
// tokens within PollInterval. A server that has been unable to read them for MaxTokenStaleness
// refuses all tokens with ErrStaleTokens until it can read them again.
type SharedStore interface {
	// ValueVersion returns the version of the named value, or 0 if it is not stored. Each change
	// increases the version.
	ValueVersion(ctx context.Context, name string) (int64, error)
	// Value returns the named value and its version.
	Value(ctx context.Context, name string) (value []byte, version int64, err error)
	// SetValue durably replaces the named value if its current version equals the argument version.
	// If version is 0, SetValue stores a new value. If the versions differ, it returns
	// storage.ErrConflict.
	SetValue(ctx context.Context, name string, version int64, value []byte) error
}

// Names of the shared values. Each value has the same content as the file it replaces.
const (
	sharedTokens   = "tokens"
	sharedLastUses = "last-use"
)

// sharedTimeout is the time limit for an operation on the shared tokens, including retries.
const sharedTimeout = 10 * time.Second

// maxConflicts is the maximum number of attempts to change the shared tokens while other servers
// are changing them, too.
const maxConflicts = 10

// loadShared returns the tokens in the shared store and the version of the stored token list. The
// version is 0 if no list is stored.
func loadShared(ctx context.Context, shared SharedStore) (tokens []Token, version int64, err error) {
	text, version, err := shared.Value(ctx, sharedTokens)
	if err != nil || version == 0 {
		return nil, 0, err
	}
	if tokens, err = parseTokens(text); err != nil {
		return nil, version, fmt.Errorf("the tokens in the database are damaged: %w; restore the database", err)
	}
	return tokens, version, nil
}

// changeShared replaces the shared tokens with the result of f. It calls f again if the tokens
// have changed in the meantime.
func (s TokenStore) changeShared(f func([]Token) ([]Token, error)) error {
	ctx, cancel := context.WithTimeout(context.Background(), sharedTimeout)
	defer cancel()
	for attempt := 1; ; attempt++ {
		tokens, version, err := loadShared(ctx, s.SharedStore)
		if err != nil {
			return err
		}
		text, err := changedText(tokens, f)
		if err != nil {
			return err
		}
		err = s.SharedStore.SetValue(ctx, sharedTokens, version, text)
		if err == nil {
			return nil
		}
		if !errors.Is(err, storage.ErrConflict) || attempt == maxConflicts {
			return fmt.Errorf("writing the tokens: %w; run colophon token list to see whether they were written", err)
		}
	}
}

// ExportTokens returns the list of tokens in its stored form, or nil if there is no list.
func (s TokenStore) ExportTokens() ([]byte, error) {
	var tokens []Token
	var err error
	if s.SharedStore == nil {
		if tokens, _, err = readTokens(s.Dir); errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
	} else {
		ctx, cancel := context.WithTimeout(context.Background(), sharedTimeout)
		defer cancel()
		var version int64
		if tokens, version, err = loadShared(ctx, s.SharedStore); err == nil && version == 0 {
			return nil, nil
		}
	}
	if err != nil {
		return nil, err
	}
	return encodeTokens(tokens)
}

// ReplaceTokens durably replaces all tokens with those in text, which must have been returned by
// ExportTokens.
func (s TokenStore) ReplaceTokens(text []byte) error {
	tokens, err := parseTokens(text)
	if err != nil {
		return err
	}
	if s.SharedStore == nil {
		if err := makeFolder(s.Dir); err != nil {
			return fmt.Errorf("creating the token folder: %w", err)
		}
	}
	return s.change(false, func([]Token) ([]Token, error) { return tokens, nil })
}

// movedTokensFile is the name to which MoveTokens renames a tokens file once its tokens are in the
// shared store.
const movedTokensFile = "tokens.moved.json"

// MoveTokens moves the tokens in dir to a shared store that has none yet. If the store already has
// tokens, MoveTokens checks that dir contains no others, revokes in the store those that are revoked
// in dir, and creates dir if it is missing. The existence of dir shows that the store has had tokens.
// If dir exists without a tokens file but the store has no tokens, the store has lost them, and
// MoveTokens returns an error.
func MoveTokens(dir string, shared SharedStore) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), sharedTimeout)
	defer cancel()
	stored, version, err := loadShared(ctx, shared)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		if version == 0 {
			return nil
		}
		return makeFolder(dir)
	}
	if _, err := os.Lstat(filepath.Join(dir, tokensFile)); errors.Is(err, fs.ErrNotExist) && version > 0 {
		return nil // the usual case also works on a full disk
	}
	release, err := lock(dir) // otherwise, a revocation between reading and renaming the file would be lost
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	own, _, err := readTokens(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist) && version > 0:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s has no token file, and the database has no tokens: restore the tokens, or create a token with colophon token create --store; "+
			"to require no credentials, remove the folder", dir)
	case err != nil:
		return err
	case version == 0:
		text, err := encodeTokens(own)
		if err == nil {
			err = shared.SetValue(ctx, sharedTokens, 0, text)
		}
		if errors.Is(err, storage.ErrConflict) {
			return errors.New("another server stored its tokens in the database at the same time; restart this server")
		}
		if err != nil {
			return err
		}
	default:
		if err := checkMoved(dir, own, stored); err != nil {
			return err
		}
		if err := moveRevocations(own, stored, shared); err != nil {
			return err
		}
	}
	if err := os.Rename(filepath.Join(dir, tokensFile), filepath.Join(dir, movedTokensFile)); err != nil {
		return fmt.Errorf("renaming the token file after its tokens were stored in the database: %w", err)
	}
	return safefile.SyncDir(dir)
}

// checkMoved returns an error if one of the tokens in dir is not stored in the shared store.
func checkMoved(dir string, own, stored []Token) error {
	for _, t := range own {
		if !slices.ContainsFunc(stored, func(known Token) bool { return known.ID == t.ID }) {
			return fmt.Errorf("%s has token %q (id %s), but the database does not: create the token again with colophon token create --store, then move the token file out of the folder",
				filepath.Join(dir, tokensFile), t.Name, t.ID)
		}
	}
	return nil
}

// moveRevocations revokes those tokens in the shared store that are revoked in a folder. They differ if
// the store got the tokens from a copy of the folder. It writes nothing if there are none, because a
// read-only server cannot write.
func moveRevocations(own, stored []Token, shared SharedStore) error {
	revoke := func(tokens []Token) (revoked []Token, changed bool) {
		for i, t := range tokens {
			at := slices.IndexFunc(own, func(o Token) bool { return o.ID == t.ID && !o.RevokedAt.IsZero() })
			if at >= 0 && t.RevokedAt.IsZero() {
				tokens[i].RevokedAt, changed = own[at].RevokedAt, true
			}
		}
		return tokens, changed
	}
	if _, needed := revoke(stored); !needed {
		return nil
	}
	return TokenStore{SharedStore: shared}.changeShared(func(tokens []Token) ([]Token, error) {
		tokens, _ = revoke(tokens)
		return tokens, nil
	})
}
