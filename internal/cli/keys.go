package cli

import (
	"os"
	"strings"

	"colophon/internal/safefile"
	"colophon/proofs"
)

// TrustedKeys are the keys that --key names.
type TrustedKeys struct {
	Keys []*proofs.Verifier // each counts by itself
	// Replaced are those that keys has replaced: what one of them alone has signed counts
	// only where something else shows that it is of the log.
	Replaced []*proofs.Verifier
}

// ReadKeys reads the keys that --key names and that count by themselves: the verifier key
// that is given, those in the file named, or the newest of a file with all keys of a log.
func (c *Console) ReadKeys(given string) ([]*proofs.Verifier, error) {
	trusted, err := c.ReadTrusted(given)
	return trusted.Keys, err
}

// ReadTrusted reads the keys that --key names.
func (c *Console) ReadTrusted(given string) (TrustedKeys, error) {
	// A key is never taken for the name of a file: whoever sends a receipt could
	// send a file of that name with it.
	if _, err := proofs.ParseVerifier(given); err == nil {
		return ParseKeys(given, "--key")
	}
	if _, err := os.Stat(given); err != nil && given != "-" {
		if !strings.Contains(given, "+") {
			return TrustedKeys{}, Exitf(ExitUsage, "--key: the value given is neither a file nor a verifier key")
		}
		return ParseKeys(given, "--key (there is no such file)")
	}
	if given != "-" {
		if err := safefile.CheckNamed(given, false); err != nil { // anybody could change whom the caller trusts
			return TrustedKeys{}, Exitf(ExitUsage, "--key: %w", err)
		}
	}
	text, err := c.ReadFile(given)
	if err != nil {
		return TrustedKeys{}, err
	}
	return ParseKeys(string(text), given)
}

// ParseKeys reads verifier keys, one a line, or the keys of a log as GET /log/key answers
// them. where names them in errors, which never quote them: a signing key may have been given.
func ParseKeys(text, where string) (TrustedKeys, error) {
	if strings.Contains(text, "PRIVATE+KEY") {
		return TrustedKeys{}, Exitf(ExitUsage, "%s: this is a signing key, which must stay secret; what is needed is the verifier key", where)
	}
	if strings.HasPrefix(strings.TrimSpace(text), "{") {
		history, err := proofs.ParseLogKey([]byte(text))
		if err != nil {
			return TrustedKeys{}, Exitf(ExitUsage, "%s: this is no verifier key: %w", where, err)
		}
		all := history.Verifiers()
		return TrustedKeys{Keys: all[:1], Replaced: all[1:]}, nil
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
			return TrustedKeys{}, Exitf(ExitUsage, "%s: line %d is no verifier key", where, number)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return TrustedKeys{}, Exitf(ExitUsage, "%s: no verifier key in it", where)
	}
	return TrustedKeys{Keys: keys}, nil
}
