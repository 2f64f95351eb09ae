package cli

import (
	"os"
	"strings"

	"colophon/internal/safefile"
	"colophon/proofs"
)

// TrustedKeys holds the keys given with the --key flag.
type TrustedKeys struct {
	Keys []*proofs.Verifier // a signature by any one of these keys is enough to accept a checkpoint
	// ReplacedKeys holds the predecessors of Keys. A signature by one of them alone is accepted
	// only if a consistency proof shows that the tree belongs to the log.
	ReplacedKeys []*proofs.Verifier
}

// ReadCurrentKeys returns the keys given with --key whose signature alone is enough to accept a checkpoint.
// These are the given verifier key or the keys in the given file. If the file lists all keys of a log, only the
// newest key is sufficient.
func (c *Console) ReadCurrentKeys(given string) ([]*proofs.Verifier, error) {
	trusted, err := c.ReadTrustedKeys(given)
	return trusted.Keys, err
}

// ReadTrustedKeys returns the keys given with --key, including those that have been replaced.
func (c *Console) ReadTrustedKeys(given string) (TrustedKeys, error) {
	// A verifier key is never treated as a file name. Otherwise the sender of a receipt could also supply a
	// file with that name.
	if _, err := proofs.ParseVerifier(given); err == nil {
		return ParseKeys(given, "--key")
	}
	if _, err := os.Stat(given); err != nil && given != "-" {
		if !strings.Contains(given, "+") {
			return TrustedKeys{}, ExitErrorf(ExitUsage, "--key: the value is neither a file nor a verifier key")
		}
		return ParseKeys(given, "--key (no file with this name exists)")
	}
	if given != "-" {
		if err := safefile.CheckUserFile(given, false); err != nil { // otherwise other users could change the trusted key
			return TrustedKeys{}, ExitErrorf(ExitUsage, "--key: %w", err)
		}
	}
	text, err := c.ReadFile(given)
	if err != nil {
		return TrustedKeys{}, err
	}
	return ParseKeys(string(text), given)
}

// ParseKeys parses verifier keys, one per line, or the keys of a log in the format of GET /log/key. Its errors
// begin with where and never quote text, because the user may have passed a signing key by mistake.
func ParseKeys(text, where string) (TrustedKeys, error) {
	if strings.Contains(text, "PRIVATE+KEY") {
		return TrustedKeys{}, ExitErrorf(ExitUsage, "%s: this is a signing key, which must stay secret; give the verifier key", where)
	}
	if strings.HasPrefix(strings.TrimSpace(text), "{") {
		history, err := proofs.ParseKeyHistory([]byte(text))
		if err != nil {
			return TrustedKeys{}, ExitErrorf(ExitUsage, "%s: invalid list of verifier keys: %w", where, err)
		}
		all := history.Verifiers()
		return TrustedKeys{Keys: all[:1], ReplacedKeys: all[1:]}, nil
	}
	var keys []*proofs.Verifier
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		key, err := proofs.ParseVerifier(line)
		if err != nil {
			return TrustedKeys{}, ExitErrorf(ExitUsage, "%s: line %d is not a verifier key", where, number)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return TrustedKeys{}, ExitErrorf(ExitUsage, "%s: the file has no verifier key", where)
	}
	return TrustedKeys{Keys: keys}, nil
}
