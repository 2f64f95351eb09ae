// Package webhook notifies other services of what a ledger records: mismatches, drift, diverging run-DAGs,
// stale citations, gaps, and problems with the index.
//
// Each hook follows each of its ledgers in a goroutine, with a cursor that survives a restart. A message
// is resent until its receiver accepts it, so the receiver gets it at least once, always with the same ID.
// Messages are formatted and signed according to the Standard Webhooks specification.
package webhook

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"colophon/internal/safefile"
)

type MessageType string

// The message types.
const (
	TypeMismatch            MessageType = "mismatch"       // a record claims a hash that its content does not have
	TypeInconsistentVerdict MessageType = "inconsistent"   // the verdict of a run-DAG breaks a rule
	TypeDrift               MessageType = "drift"          // the output of an IPC run differs from the output of the previous run with the same input
	TypeDivergence          MessageType = "divergence"     // a run-DAG differs from the previous one with the same question
	TypeStaleCitation       MessageType = "stale_citation" // an event superseded chunks that citation sets cite
	TypeSequenceGap         MessageType = "gap"            // a producer skipped sequence numbers
	TypeIndexTrouble        MessageType = "trouble"        // the index of a ledger stopped or fell behind
)

// MessageTypes lists all types of messages.
var MessageTypes = []MessageType{TypeMismatch, TypeInconsistentVerdict, TypeDrift, TypeDivergence, TypeStaleCitation, TypeSequenceGap, TypeIndexTrouble}

// Hook is the configuration of one receiver of messages.
type Hook struct {
	Name string `yaml:"name"` // unique; identifies the hook in logs, metrics, and cursor files
	URL  string `yaml:"url"`  // http or https URL that receives the messages
	// SecretFile names a file that holds the secret for signing messages: at least 24 bytes of text, or
	// whsec_ followed by base64. A relative name is relative to the folder of the configuration file.
	SecretFile   string        `yaml:"secret-file"`
	Ledgers      []string      `yaml:"ledgers"` // empty means all
	MessageTypes []MessageType `yaml:"events"`  // empty means all
	Causes       []string      `yaml:"causes"`  // causes of drift and divergence; empty means all
	// FromStart makes a new hook send messages about all events in the log. By default, it starts
	// at the head.
	FromStart bool `yaml:"from-start"`

	secret []byte
}

const (
	maxHooks     = 100
	minSecret    = 24
	secretPrefix = "whsec_"
)

var hookName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)

// LoadHooks reads a configuration file: a list of hooks in YAML. The file and its secrets can be links, because
// Kubernetes mounts them as links.
func LoadHooks(path string) ([]Hook, error) {
	text, err := safefile.ReadUserFile(path, false)
	if err != nil {
		return nil, err
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	var hooks []Hook
	if err := decoder.Decode(&hooks); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("parsing %s: %w", path, err)
	}
	if len(hooks) > maxHooks {
		return nil, fmt.Errorf("%s has %d hooks, but the limit is %d", path, len(hooks), maxHooks)
	}
	for i := range hooks {
		h := &hooks[i]
		if err := h.check(filepath.Dir(path)); err != nil {
			return nil, fmt.Errorf("%s: hook %d, %q: %w", path, i+1, h.Name, err)
		}
		if slices.ContainsFunc(hooks[:i], func(other Hook) bool { return other.Name == h.Name }) {
			return nil, fmt.Errorf("%s: two hooks have the name %q", path, h.Name)
		}
	}
	return hooks, nil
}

// check validates a hook and reads its secret. dir is the folder that contains the configuration
// file.
func (h *Hook) check(dir string) error {
	if !hookName.MatchString(h.Name) {
		return errors.New("name: must begin with a lower-case letter or digit, and contain at most 63 lower-case letters, digits, dots, underscores, and hyphens")
	}
	u, err := url.Parse(h.URL)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return errors.New("url: must be the http or https URL of the receiver, such as https://hooks.example.org/colophon")
	}
	if u.User != nil {
		return errors.New("url: must not contain a user name or password; the receiver authenticates messages by their signature")
	}
	for _, t := range h.MessageTypes {
		if !slices.Contains(MessageTypes, t) {
			return fmt.Errorf("events: %q is not a message type; the message types are %s", t, names(MessageTypes))
		}
	}
	if h.SecretFile == "" {
		return errors.New("secret-file: must name a file that contains the secret for signing messages")
	}
	path := h.SecretFile
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	text, err := safefile.ReadUserFile(path, true)
	if err != nil {
		return fmt.Errorf("secret-file: %w", err)
	}
	h.secret, err = parseSecret(strings.TrimSpace(string(text)))
	if err != nil {
		return fmt.Errorf("secret-file: %w", err)
	}
	return nil
}

// parseSecret decodes the signing key from the text of a secret. It returns an error if the key is
// shorter than minSecret bytes.
func parseSecret(text string) ([]byte, error) {
	key := []byte(text)
	if encoded, is := strings.CutPrefix(text, secretPrefix); is {
		var err error
		if key, err = base64.StdEncoding.DecodeString(encoded); err != nil {
			return nil, fmt.Errorf("the text after %s is not base64: %w", secretPrefix, err)
		}
	}
	if len(key) < minSecret {
		return nil, fmt.Errorf("the secret has %d bytes, but must have at least %d; create one with: openssl rand -base64 32", len(key), minSecret)
	}
	return key, nil
}

func names(types []MessageType) string {
	list := make([]string, len(types))
	for i, t := range types {
		list[i] = string(t)
	}
	return strings.Join(list, ", ")
}

// wants reports whether the hook sends messages of type t with the given cause. cause is "" for
// types that have no cause.
func (h *Hook) wants(t MessageType, cause string) bool {
	return (len(h.MessageTypes) == 0 || slices.Contains(h.MessageTypes, t)) &&
		(cause == "" || len(h.Causes) == 0 || slices.Contains(h.Causes, cause))
}

// covers reports whether the hook follows the named ledger.
func (h *Hook) covers(ledger string) bool {
	return len(h.Ledgers) == 0 || slices.Contains(h.Ledgers, ledger)
}
