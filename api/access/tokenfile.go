package access

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"colophon/internal/safefile"
	"colophon/ledger/record/pyjson"
)

// Names of the files in a token store.
const (
	tokensFile  = "tokens.json"
	lastUseFile = "last-use.json"
	lockFile    = "tokens.lock" // locked while tokensFile is being changed
)

// tokensVersion is the format version of the tokens file.
const tokensVersion = 1

// maxTokensFile is the maximum length of the tokens file, in bytes: enough for about ten
// thousand tokens.
const maxTokensFile = 8 << 20

// tokenList is the content of the tokens file.
type tokenList struct {
	Version int     `json:"version"` // version of the file's format
	Tokens  []Token `json:"tokens"`
}

// encodeTokens returns the text of a tokens file that contains the given tokens.
func encodeTokens(tokens []Token) ([]byte, error) {
	text, err := json.MarshalIndent(tokenList{tokensVersion, tokens}, "", "  ")
	return append(text, '\n'), err
}

// parseTokens parses the text of a tokens file. It refuses unknown members and duplicate
// names, because an ignored member might have been a restriction.
func parseTokens(text []byte) ([]Token, error) {
	if err := new(pyjson.Document).Parse(text); err != nil {
		return nil, err
	}
	var list tokenList
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&list); err != nil {
		return nil, err
	}
	if list.Version != tokensVersion {
		return nil, fmt.Errorf("the file has version %d, but this program supports only version %d", list.Version, tokensVersion)
	}
	ids, names := make(map[string]bool), make(map[string]bool)
	for i := range list.Tokens {
		t := &list.Tokens[i]
		if err := t.check(); err != nil {
			return nil, fmt.Errorf("token %d: %w", i+1, err)
		}
		if ids[t.ID] || t.RevokedAt.IsZero() && names[t.Name] {
			return nil, fmt.Errorf("token %d: an earlier token has the same id or name", i+1)
		}
		ids[t.ID] = true
		if t.RevokedAt.IsZero() {
			names[t.Name] = true
		}
	}
	return list.Tokens, nil
}

// readTokens reads the tokens file in dir. info describes the file if its text was read, even if
// the text is damaged. The error wraps fs.ErrNotExist if the file is missing. readTokens refuses a
// file that other users can read, and the error says how to fix that.
func readTokens(dir string) (tokens []Token, info fs.FileInfo, err error) {
	path := filepath.Join(dir, tokensFile)
	file, opened, err := openRegular(path)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	folder, err := os.Stat(dir)
	if err != nil {
		return nil, nil, err
	}
	if err := errors.Join(safefile.CheckPrivate(dir, folder, "700"), safefile.CheckOwner(dir, folder)); err != nil {
		return nil, nil, err
	}
	if err := errors.Join(safefile.CheckPrivate(path, opened, "600"), safefile.CheckOwner(path, opened)); err != nil {
		return nil, nil, err
	}
	if opened.Size() > maxTokensFile {
		return nil, opened, fmt.Errorf("%s is damaged: it is longer than %d bytes", path, maxTokensFile)
	}
	text, err := io.ReadAll(io.LimitReader(file, maxTokensFile))
	if err != nil {
		return nil, nil, fmt.Errorf("reading %s: %w", path, err)
	}
	if tokens, err = parseTokens(text); err != nil {
		return nil, opened, fmt.Errorf("%s is damaged: %w; restore it from a backup", path, err)
	}
	return tokens, opened, nil
}
