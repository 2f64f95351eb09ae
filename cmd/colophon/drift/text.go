package drift

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
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

// comparedTexts are the texts of a kind of record that compare --text compares.
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

// memberDigest returns the digest of a value of a payload member. The value is a digest, JSON, or the
// text of a JSON string.
func memberDigest(d *commands, command *cobra.Command, pointer, value string) (string, error) {
	if members.IsDigest([]byte(value)) {
		return value, nil
	}
	answer, _, err := fetch[wire.MemberSecret](d, command, "/member-secret", nil)
	if err != nil {
		return "", fmt.Errorf("finding runs by a value of %s needs the secret of payload members: %w; or give the digest of the value", cli.Plain(pointer), err)
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

// labelled returns the hash that all runs with a label have, if value is label:NAME=VALUE and the
// variable is a hash. It returns any other value unchanged.
func labelled(d *commands, command *cobra.Command, variable, value string) (string, error) {
	label, text, found := strings.Cut(value, "=")
	if !found || !strings.HasPrefix(label, "label:") || !strings.HasSuffix(variable, "_hash") {
		return value, nil
	}
	query := d.query(command)
	query.Set("kind", string(wire.KindIPCRecord))
	query.Set("limit", "1000")
	query.Set(label, text)
	page, _, err := fetch[wire.Page[wire.ListedRecord]](d, command, "/records", query)
	if err != nil {
		return "", err
	}
	var hashes []string
	for _, r := range page.Rows {
		if hash := r.Hashes.Get(variable); hash != "" && !slices.Contains(hashes, hash) {
			hashes = append(hashes, hash)
		}
	}
	switch len(hashes) {
	case 0:
		return "", cli.Exitf(cli.ExitFailed, "no IPC record with %s has a value of %s", cli.Plain(value), cli.Plain(variable))
	case 1:
		return hashes[0], nil
	}
	return "", cli.Exitf(cli.ExitFailed, "records with %s have %d different values of %s; give one of them: %s", cli.Plain(value), len(hashes), cli.Plain(variable), strings.Join(hashes[:min(len(hashes), 8)], ", "))
}
