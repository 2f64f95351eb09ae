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

// comparedTexts lists, for each kind of record, the texts that the command "compare --text" shows the
// differences of.
var comparedTexts = map[wire.Kind][]string{
	wire.KindIPCRecord:       {"output", "prompt", "payload"},
	wire.KindRunDAG:          {"question", "answer_text"},
	wire.KindPathFingerprint: {"passage"},
}

// compareTexts prints a word-by-word comparison of the texts of two records that have the same
// kind.
func (d *commands) compareTexts(command *cobra.Command, a, b string, kind wire.Kind) error {
	for _, of := range comparedTexts[kind] {
		err := printAnswer(d, command, "/diff", url.Values{"a": {a}, "b": {b}, "of": {of}}, func(x *wire.TextDiff) error {
			return show.PrintTextDiff(d.Console, of, x)
		})
		switch {
		case errors.Is(err, client.ErrNotFound):
			// Ignore client.ErrNotFound: one of the records was posted without this text.
		case errors.Is(err, client.ErrGone):
			d.PrintErrf("%s: %v", of, err)
		case err != nil:
			return err
		}
	}
	return nil
}

// memberDigest returns the digest of a payload member's value. value may be the digest itself, a
// JSON value, or the text of a JSON string.
func memberDigest(d *commands, command *cobra.Command, pointer, value string) (string, error) {
	if members.IsDigest([]byte(value)) {
		return value, nil
	}
	answer, _, err := fetch[wire.PayloadMemberSecret](d, command, "/member-secret", nil)
	if err != nil {
		return "", fmt.Errorf("fetching the payload-member secret, which is needed to find runs by the value of %s: %w; use the digest of the value instead", cli.QuoteCell(pointer), err)
	}
	key, err := hex.DecodeString(answer.MemberSecret)
	if err != nil {
		return "", fmt.Errorf("decoding the payload-member secret in the server's response: %w", err)
	}
	secret, err := members.ParseSecret(key)
	if err != nil {
		return "", err
	}
	var document pyjson.Document
	if document.Parse([]byte(value)) != nil {
		if err := document.Parse(pyjson.AppendString(nil, []byte(value))); err != nil {
			return "", cli.ExitErrorf(cli.ExitUsage, "%q is neither JSON nor valid text: %w", value, err)
		}
	}
	return string(secret.AppendDigest(nil, []byte(pointer), document.Root().AppendCanonical(nil, pyjson.SpacedForm))), nil
}

// isTextHash reports whether the values of a variable are hashes of texts.
func isTextHash(variable string) bool {
	return variable == "input" || variable == "input_hash" || variable == "system_prompt_hash"
}

// resolveLabel replaces label:NAME=VALUE with the hash that all records with that label share. It
// does so only if the variable is a hash of a text. It returns an error if the value of such a
// variable is neither a hash nor a label. It returns hashes, and the values of other variables,
// unchanged.
func resolveLabel(d *commands, command *cobra.Command, variable, value string) (string, error) {
	if !isTextHash(variable) || cli.IsHashPrefix(value) {
		return value, nil
	}
	label, text, found := strings.Cut(value, "=")
	if variable == "input" || !found || !strings.HasPrefix(label, "label:") {
		return "", notTextHash(d, command, variable, value)
	}
	query := d.query(command)
	query.Set("kind", string(wire.KindIPCRecord))
	query.Set("limit", "1000")
	query.Set(label, text)
	var hashes []string
	var seqs []uint64 // seqs[i] is the seq of a record that has hashes[i]
	labelled := false // whether any record has the label
	err := forEachRow(d, command, "/records", query, func(r wire.ListedRecord) bool {
		labelled = true
		if hash := r.Hashes.Get(variable); hash != "" && !slices.Contains(hashes, hash) {
			hashes = append(hashes, hash)
			seqs = append(seqs, r.Seq)
		}
		return len(hashes) <= maxValues
	})
	switch {
	case err != nil:
		return "", err
	case labelled && len(hashes) == 0:
		advice := ""
		if variable == "system_prompt_hash" {
			advice = "; record the prompt as system_prompt, separately from the payload"
		}
		return "", cli.ExitErrorf(cli.ExitFailed, "the IPC records with %s have no %s%s", cli.QuoteCell(value), variable, advice)
	case len(hashes) == 0:
		values, err := valuesOf(d, command, label)
		if err != nil {
			return "", err
		}
		return "", cli.ExitErrorf(cli.ExitFailed, "no IPC record has %s%s", cli.QuoteCell(value), values)
	case len(hashes) == 1:
		return hashes[0], nil
	}
	count := fmt.Sprint(len(hashes))
	if len(hashes) > maxValues {
		count = fmt.Sprintf("more than %d", maxValues)
	}
	shown := make([]string, len(hashes))
	for i, hash := range hashes {
		shown[i] = show.HashCell(hash, d.full) + d.texts().Excerpt(command.Context(), variable, hash, seqs[i])
	}
	return "", cli.ExitErrorf(cli.ExitFailed, "%s must identify a single value of %s, but its records have %s values: %s; use the first digits of one hash, or a label whose records all have the same value",
		cli.QuoteCell(value), variable, count, fewOf(shown))
}

// notTextHash returns the error for a value that is neither a hash nor label:NAME=VALUE. The error lists
// values that the variable has in existing runs.
func notTextHash(d *commands, command *cobra.Command, variable, value string) error {
	forms, labels := "8 to 64 digits of the hash", ""
	if variable != "input" {
		forms += ", or label:NAME=VALUE"
		labels = labelsWith(d, command, value)
	}
	values, err := valuesOf(d, command, variable)
	if err != nil {
		values = "" // ignore err: it would hide what is wrong with the arguments
	}
	return cli.ExitErrorf(cli.ExitUsage, "%q is not a valid value for %s; use %s%s%s", value, variable, forms, labels, values)
}

// labelsWith returns a clause for an error message that lists the labels with the given value, or
// "" if there are none.
func labelsWith(d *commands, command *cobra.Command, value string) string {
	query := d.asOf(command)
	query.Set("q", value)
	answer, _, err := fetch[wire.SearchAnswer](d, command, "/search", query)
	if err != nil {
		return ""
	}
	var found []string
	for _, hit := range answer.Rows {
		if hit.Value == value && strings.HasPrefix(string(hit.Type), "label:") {
			found = append(found, cli.QuoteCell(string(hit.Type)+"="+value))
		}
	}
	if len(found) == 0 {
		return ""
	}
	return " (such as " + fewOf(found) + ")"
}

// valuesOf returns a clause for a message. The clause lists some of the values that runs have in the field
// by. If by is a label that no run has, it lists the names of labels instead. valuesOf returns "" if there
// is nothing to list.
func valuesOf(d *commands, command *cobra.Command, by string) (string, error) {
	query := d.asOf(command)
	var values []string
	var err error
	switch {
	case by == "temperature" || by == "max_tokens":
		query.Set("of", by)
		values, err = runValues(d, command, query)
	case by == "seed" || strings.HasPrefix(by, "/"):
		return "", nil
	default:
		query.Set("by", by)
		query.Set("state", "any")
		err = forEachRow(d, command, "/drift/groups", query, func(g wire.RunGroup) bool {
			value := cli.QuoteCell(g.Value)
			if isTextHash(by) {
				value = show.HashCell(g.Value, false) + d.texts().Excerpt(command.Context(), by, g.Value, g.LastRunSeq)
			}
			values = append(values, value)
			return len(values) <= maxValues
		})
	}
	switch {
	case err != nil:
		return "", err
	case len(values) > 0:
		return "; runs have the values " + fewOf(values), nil
	}
	if strings.HasPrefix(by, "label:") {
		query = d.asOf(command)
		query.Set("of", "label")
		if values, err = runValues(d, command, query); len(values) > 0 {
			return "; no run has this label; the labels of runs are " + fewOf(values), err
		}
	}
	return "", err
}

// runValues returns up to maxValues+1 values from GET /drift/values. The last one shows that there
// are more than maxValues.
func runValues(d *commands, command *cobra.Command, query url.Values) (values []string, err error) {
	err = forEachRow(d, command, "/drift/values", query, func(v wire.RunValue) bool {
		values = append(values, cli.QuoteCell(v.Value))
		return len(values) <= maxValues
	})
	return values, err
}
