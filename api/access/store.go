package access

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// TokenStore reads and changes the stored tokens of a data folder. Several processes can use it at
// the same time. A running server applies a change starting with its next request, or within
// PollInterval if the tokens are in a shared store.
type TokenStore struct {
	Dir string // folder of the token store
	// SharedStore is the store of the tokens. If it is nil, Dir contains the tokens.
	SharedStore SharedStore
	// Now returns the current time. Times are stored in whole seconds.
	Now func() time.Time
}

// TokenSpec describes a token to create.
type TokenSpec struct {
	Name    string // name of the token, which is also the actor's name in events
	Grants  []Grant
	Expires time.Time // zero means never
}

// Check returns an error if a token with this specification cannot be created at the time now. It
// does not compare the token with others.
func (s TokenSpec) Check(now time.Time) error {
	if err := checkName(s.Name); err != nil {
		return err
	}
	if !s.Expires.IsZero() && !s.Expires.After(now) {
		return fmt.Errorf("the token would expire at %s, which is not in the future; choose a later time", s.Expires.Format(time.RFC3339))
	}
	return checkGrants(s.Grants)
}

// CreatedToken is the result of TokenStore.Create.
type CreatedToken struct {
	Token
	// Text is the token itself. The store keeps only its hash.
	Text string
	// IsFirst is true if the store was empty before. If so, every request from now on needs a token
	// or another credential.
	IsFirst bool
}

// Create durably creates a token. If necessary, it also creates the folder of the store.
func (s TokenStore) Create(n TokenSpec) (CreatedToken, error) {
	now := s.Now().UTC().Truncate(time.Second)
	if err := n.Check(now); err != nil {
		return CreatedToken{}, err
	}
	if s.SharedStore == nil {
		if err := makeFolder(s.Dir); err != nil {
			return CreatedToken{}, fmt.Errorf("creating the token folder: %w", err)
		}
	}
	text, id := newTokenText()
	made := CreatedToken{Text: text, Token: Token{
		ID: id, Name: n.Name, SHA256: digestOf(text), Grants: n.Grants, CreatedAt: now, Expires: wholeSecond(n.Expires),
	}}
	err := s.change(false, func(tokens []Token) ([]Token, error) {
		for _, t := range tokens {
			if t.RevokedAt.IsZero() && t.Name == n.Name {
				return nil, fmt.Errorf("a token %q already exists, with id %s; revoke it first, or choose another name", t.Name, t.ID)
			}
		}
		made.IsFirst = len(tokens) == 0
		return append(tokens, made.Token), nil
	})
	return made, err
}

// Clear durably removes all tokens from the store, and creates its folder if necessary. From then
// on, requests need a token, but the server accepts none.
func (s TokenStore) Clear() error {
	if err := makeFolder(s.Dir); err != nil {
		return fmt.Errorf("creating the token folder: %w", err)
	}
	return s.change(true, func([]Token) ([]Token, error) { return []Token{}, nil })
}

// wholeSecond rounds a time up to a whole second and converts it to UTC.
func wholeSecond(at time.Time) time.Time {
	if whole := at.UTC().Truncate(time.Second); !whole.Equal(at) {
		return whole.Add(time.Second)
	}
	return at.UTC()
}

// Revoke durably revokes the token with the given name or ID. It does not change a token that is
// already revoked. If the disk is full, Revoke uses the reserved disk space.
func (s TokenStore) Revoke(nameOrID string) (revoked Token, err error) {
	if _, err := os.Stat(s.Dir); errors.Is(err, fs.ErrNotExist) && s.SharedStore == nil {
		return Token{}, fmt.Errorf("there are no tokens: %s does not exist", s.Dir)
	}
	err = s.change(true, func(tokens []Token) ([]Token, error) {
		at := slices.IndexFunc(tokens, func(t Token) bool { return t.Name == nameOrID && t.RevokedAt.IsZero() })
		if at < 0 {
			at = slices.IndexFunc(tokens, func(t Token) bool { return t.ID == nameOrID })
		}
		if at < 0 {
			return nil, fmt.Errorf("no active token has the name %[1]q, and no token has the id %[1]q", nameOrID)
		}
		if tokens[at].RevokedAt.IsZero() {
			tokens[at].RevokedAt = s.Now().UTC().Truncate(time.Second)
		}
		revoked = tokens[at]
		return tokens, nil
	})
	return revoked, err
}

// ListedToken is a token and the time of its last use, if known.
type ListedToken struct {
	Token
	LastUse time.Time // zero means unknown
}

// List returns all tokens, including revoked ones, in order of creation. A running server writes the last-use
// times at most once a minute.
func (s TokenStore) List() ([]ListedToken, error) {
	tokens, uses, err := s.read()
	if err != nil {
		return nil, err
	}
	list := make([]ListedToken, len(tokens))
	for i, t := range tokens {
		list[i] = ListedToken{Token: t, LastUse: uses[t.ID]}
	}
	slices.SortStableFunc(list, func(a, b ListedToken) int { return cmp.Compare(a.CreatedAt.Unix(), b.CreatedAt.Unix()) })
	return list, nil
}

// read returns the tokens and their last-use times. If only the times cannot be read, uses and err
// are nil; the server logs such errors.
func (s TokenStore) read() (tokens []Token, uses map[string]time.Time, err error) {
	if s.SharedStore != nil {
		ctx, cancel := context.WithTimeout(context.Background(), sharedTimeout)
		defer cancel()
		if tokens, _, err = loadShared(ctx, s.SharedStore); err == nil {
			uses, _, _ = loadLastUses(ctx, s.SharedStore)
		}
		return tokens, uses, err
	}
	if tokens, _, err = readTokens(s.Dir); errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err == nil {
		uses, _ = readLastUses(filepath.Join(s.Dir, lastUseFile))
	}
	return tokens, uses, err
}

// change replaces the tokens with the result of f while holding the lock. takesAway means that f
// only removes rights; if the disk is full, such a change may use the reserved disk space.
func (s TokenStore) change(takesAway bool, f func([]Token) ([]Token, error)) (err error) {
	if s.SharedStore != nil {
		return s.changeShared(f)
	}
	release, err := lock(s.Dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	tokens, _, err := readTokens(s.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	text, err := changedText(tokens, f)
	if err != nil {
		return err
	}
	path := filepath.Join(s.Dir, tokensFile)
	err = replaceFile(path, text, true)
	if isFull(err) && takesAway && releaseReserve(s.Dir) == nil {
		err = replaceFile(path, text, true)
	}
	if isFull(err) {
		return fmt.Errorf("writing the tokens: %w; free up space on the file system that contains %s", err, s.Dir)
	}
	if err != nil {
		return fmt.Errorf("writing the tokens: %w", err)
	}
	_ = makeReserve(s.Dir, int64(len(text))) // an error does not matter: the tokens are written, and the server tries again later
	return nil
}

// changedText applies f to the tokens, and returns the resulting list in its stored form.
func changedText(tokens []Token, f func([]Token) ([]Token, error)) ([]byte, error) {
	tokens, err := f(tokens)
	if err != nil {
		return nil, err
	}
	text, err := encodeTokens(tokens)
	if err != nil {
		return nil, err
	}
	if len(text) > maxTokensFile {
		return nil, fmt.Errorf("too many tokens: the list of tokens would exceed %d bytes", maxTokensFile)
	}
	return text, nil
}
