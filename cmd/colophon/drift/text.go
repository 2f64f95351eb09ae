package drift

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"colophon/client"
	"colophon/client/wire"
	"colophon/internal/cli"
	"colophon/internal/show"
	"colophon/ledger/record/members"
	"colophon/ledger/record/pyjson"
)

// comparedTexts lists, for each kind of record, the texts that compare --text compares.
var comparedTexts = map[wire.Kind][]string{
	wire.KindIPCRecord:       {"output", "prompt", "payload"},
	wire.KindRunDAG:          {"question", "answer_text"},
	wire.KindPathFingerprint: {"passage"},
}

// compareTexts prints how the texts of two records of one kind differ, word by word.
func (d *commands) compareTexts(command *cobra.Command, a, b string, kind wire.Kind) error {
	for _, of := range comparedTexts[kind] {
		err := printAnswer(d, command, "/diff", url.Values{"a": {a}, "b": {b}, "of": {of}}, func(x *wire.TextDiff) error {
			return show.TextDiff(d.Console, of, x)
		})
		switch {
		case errors.Is(err, client.ErrNotFound):
			// One of the records was posted without this text.
		case errors.Is(err, client.ErrGone):
			d.Say("%s: %v", of, err)
		case err != nil:
			return err
		}
	}
	return nil
}

// memberDigest returns the digest of a value of a payload member. The value is the digest itself,
// JSON, or the text of a JSON string.
func memberDigest(d *commands, command *cobra.Command, pointer, value string) (string, error) {
	if members.IsDigest([]byte(value)) {
		return value, nil
	}
	answer, _, err := fetch[wire.MemberSecret](d, command, "/member-secret", nil)
	if err != nil {
		return "", fmt.Errorf("finding runs by a value of %s needs the secret of payload members, which cannot be fetched: %w; give the digest of the value instead", cli.QuoteCell(pointer), err)
	}
	key, err := hex.DecodeString(answer.MemberSecret)
	if err != nil {
		return "", fmt.Errorf("decoding the secret of payload members in the server's answer: %w", err)
	}
	secret, err := members.ReadSecret(key)
	if err != nil {
		return "", err
	}
	var document pyjson.Document
	if document.Parse([]byte(value)) != nil {
		if err := document.Parse(pyjson.AppendString(nil, []byte(value))); err != nil {
			return "", cli.Exitf(cli.ExitUsage, "%q is neither JSON nor a valid text: %w", value, err)
		}
	}
	return string(secret.AppendDigest(nil, []byte(pointer), document.Root().AppendCanonical(nil, pyjson.Spaced))), nil
}

// hashDigits matches a hash or its first digits.
var hashDigits = regexp.MustCompile(`^[0-9a-f]{8,64}$`)

// labelled returns the hash that all runs with a label have, if the variable is a hash and value is
// label:NAME=VALUE. It returns every other value unchanged, but refuses a value that is not a hash if
// the variable is a hash.
func labelled(d *commands, command *cobra.Command, variable, value string) (string, error) {
	if variable != "input" && variable != "input_hash" && variable != "system_prompt_hash" || hashDigits.MatchString(value) {
		return value, nil
	}
	label, text, found := strings.Cut(value, "=")
	switch {
	case variable == "input":
		return "", cli.Exitf(cli.ExitUsage, "%q is not a value of input: give 8 to 64 digits of the hash; colophon drift groups --by input lists them", value)
	case !found || !strings.HasPrefix(label, "label:"):
		return "", cli.Exitf(cli.ExitUsage, "%q is not a value of %s: give 8 to 64 digits of the hash, or label:NAME=VALUE; colophon drift groups --by %s lists them", value, variable, variable)
	}
	query := d.query(command)
	query.Set("kind", string(wire.KindIPCRecord))
	query.Set("limit", "1000")
	query.Set(label, text)
	var hashes []string
	err := every(d, command, "/records", query, func(r wire.ListedRecord) bool {
		if hash := r.Hashes.Get(variable); hash != "" && !slices.Contains(hashes, hash) {
			hashes = append(hashes, hash)
		}
		return len(hashes) <= maxValues
	})
	switch {
	case err != nil:
		return "", err
	case len(hashes) == 0:
		values, err := valuesOf(d, command, label)
		if err != nil {
			return "", err
		}
		return "", cli.Exitf(cli.ExitFailed, "no IPC record with %s has a value of %s%s", cli.QuoteCell(value), variable, values)
	case len(hashes) == 1:
		return hashes[0], nil
	}
	count := fmt.Sprint(len(hashes))
	if len(hashes) > maxValues {
		count = fmt.Sprintf("more than %d", maxValues)
	}
	return "", cli.Exitf(cli.ExitFailed, "records with %s have %s different values of %s; give one of them: %s", cli.QuoteCell(value), count, variable, fewOf(hashes))
}

// valuesOf returns a clause for an error message that lists some values of runs in the field by. It
// returns "" if no run has one.
func valuesOf(d *commands, command *cobra.Command, by string) (string, error) {
	query := d.asOf(command)
	query.Set("by", by)
	query.Set("state", "any")
	var values []string
	err := every(d, command, "/drift/groups", query, func(g wire.Group) bool {
		values = append(values, cli.QuoteCell(g.Value))
		return len(values) <= maxValues
	})
	if err != nil || len(values) == 0 {
		return "", err
	}
	return fmt.Sprintf("; runs have the values %s", fewOf(values)), nil
}
