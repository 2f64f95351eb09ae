package verify

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"colophon/internal/cli"
	"colophon/ledger/record"
	"colophon/ledger/record/moment"
	"colophon/ledger/record/pyjson"
	"colophon/proofs"
)

// ReportRejection returns an error with the exit code of the FailureKind that matches cause. If
// o.JSON is set, it also prints the reason as JSON. It returns cause unchanged if no FailureKind
// matches.
func ReportRejection(c *cli.Console, o Options, cause error) error {
	for _, v := range FailureKinds() {
		if !errors.Is(cause, v.err) {
			continue
		}
		if !o.JSON {
			return cli.ExitErrorf(v.ExitCode, "NOT VERIFIED (%s): %s\n%w", strings.ReplaceAll(v.name, "_", " "), v.meaning, cause)
		}
		outcome := struct {
			Verified bool   `json:"verified"`
			Code     int    `json:"code"`
			Reason   string `json:"reason"`
			Detail   string `json:"detail"`
		}{false, v.ExitCode, v.name, cause.Error()}
		if err := cli.PrintAsJSON(c, outcome); err != nil {
			return err
		}
		return &cli.ExitError{Code: v.ExitCode}
	}
	return cause
}

// accepted is the report on a verified receipt.
type accepted struct {
	Verified       bool            `json:"verified"`
	Code           int             `json:"code"` // exit code, always 0
	Ledger         string          `json:"ledger"`
	Seq            uint64          `json:"seq"`
	Kind           string          `json:"kind"`
	Time           string          `json:"time"`
	EventHash      string          `json:"event_hash"`
	Origin         string          `json:"origin"`
	TreeSize       uint64          `json:"tree_size"`       // number of entries that the checkpoint covers
	KeyFingerprint string          `json:"key_fingerprint"` // of the key that signed the checkpoint
	Checks         json.RawMessage `json:"checks"`          // the event's checks, as a JSON object
	RecordVerified bool            `json:"record_verified"` // true if a record was given and matches the event
	coverage
}

// coverage lists the members of a file that its proof covers, and those for which the reader
// must trust the server or the author of the file.
type coverage struct {
	Proved    []string `json:"proved"`     // names of the members that the proof covers
	NotProved []string `json:"not_proved"` // names of the members that no proof covers
}

func receiptCoverage(r *proofs.Receipt) coverage {
	return coverage{r.CoveredMembers(), append([]string{}, r.UncoveredMembers()...)}
}

// unproved formats the list of members that no proof covers, or returns "" if there are none. word
// names the party that asserts them.
func (c coverage) unproved(word string) string {
	const most = 20
	if len(c.NotProved) == 0 {
		return ""
	}
	var names []string
	for _, name := range c.NotProved[:min(most, len(c.NotProved))] {
		// Quote the names: the server chose them, and they can contain control characters that a terminal
		// would interpret.
		names = append(names, fmt.Sprintf("%.100q", name))
	}
	if more := len(c.NotProved) - most; more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return fmt.Sprintf("  NOT PROVED  %s: asserted only by %s\n", strings.Join(names, ", "), word)
}

// newAccepted returns the report on a verified receipt. It returns an error that wraps
// proofs.ErrMalformed if the kind of the event is unknown, or if its time or ledger name is not
// valid.
func newAccepted(r *proofs.Receipt, keys []*proofs.Verifier) (*accepted, error) {
	if !record.Kind(r.Kind).IsKnown() {
		return nil, fmt.Errorf("%w: unknown event kind %+.100q", proofs.ErrMalformed, r.Kind)
	}
	if !moment.IsEventTime([]byte(r.Time)) {
		return nil, fmt.Errorf("%w: the event's time is %+.100q, which is not an RFC 3339 time in UTC with microseconds", proofs.ErrMalformed, r.Time)
	}
	if err := ledgerName(r.Ledger); err != nil {
		return nil, err
	}
	checkpoint, err := proofs.OpenCheckpoint(r.Proof.Checkpoint, keys...)
	if err != nil {
		return nil, err
	}
	return &accepted{
		Verified: true, Ledger: r.Ledger, Seq: r.Seq, Kind: r.Kind, Time: r.Time,
		EventHash: fmt.Sprintf("%x", r.EventHash), Origin: checkpoint.Origin, TreeSize: checkpoint.Size,
		KeyFingerprint: fingerprint(r.Proof.Checkpoint, keys), Checks: r.Checks,
		coverage: receiptCoverage(r),
	}, nil
}

// ledgerName returns an error if name is not a valid name of a ledger.
func ledgerName(name string) error {
	if !record.IsLedgerName(name) {
		return fmt.Errorf("%w: %+.100q is not a valid ledger name", proofs.ErrMalformed, name)
	}
	return nil
}

// fingerprint returns the fingerprint of the key that signed a checkpoint. If several of the keys
// signed it, fingerprint uses the last of them.
func fingerprint(checkpoint []byte, keys []*proofs.Verifier) (found string) {
	for _, key := range keys {
		if _, err := proofs.OpenCheckpoint(checkpoint, key); err == nil {
			found = key.Fingerprint()
		}
	}
	return found
}

func (a *accepted) print(c *cli.Console) error {
	checks, claimed, err := summarise(a.Checks)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("VERIFIED: event %d of ledger %s, %s, recorded %s\n", a.Seq, a.Ledger, a.Kind, a.Time) +
		fmt.Sprintf("  event hash  %s\n", a.EventHash) +
		fmt.Sprintf("  in the log  %s, at tree size %d\n", a.Origin, a.TreeSize) +
		fmt.Sprintf("  signed by   key %s\n", a.KeyFingerprint) + checks
	if a.RecordVerified {
		text += "  record      is the record that was posted, and the event's values were computed again from it"
		if claimed > 0 {
			text += ", except " + cli.FormatCount(uint64(claimed), "claim")
		}
		text += "\n"
	}
	text += fmt.Sprintf("  proved      %s\n", strings.Join(a.Proved, ", ")) + a.unproved("the server")
	_, err = fmt.Fprint(c.Out, text)
	return err
}

// summarise formats the ledger's checks of a record: the number of times each result occurs,
// followed by each failed check. claimed is the number of checks whose result is record.ResultClaimed.
func summarise(checks []byte) (text string, claimed int, err error) {
	var document pyjson.Document
	if err := document.Parse(checks); err != nil {
		return "", 0, fmt.Errorf("reading the checks: %w", err)
	}
	found := make(map[string]int)
	var failed strings.Builder
	for name, check := range document.Root().Members() {
		result := string(check.Member("result").Text())
		found[result]++
		if result == string(record.ResultMismatch) {
			// Quote the names: the writer of the record chose them, and they can contain control characters
			// that a terminal would interpret.
			fmt.Fprintf(&failed, "  MISMATCH    %q: claimed %s, computed %s\n", name.Text(),
				check.Member("claimed").Raw(), check.Member("computed").Raw())
		}
		if result == string(record.ResultInconsistent) {
			fmt.Fprintf(&failed, "  INCONSISTENT %q: no run can have this verdict\n", name.Text())
		}
	}
	var parts []string
	for _, result := range []record.CheckResult{record.ResultMatch, record.ResultMismatch, record.ResultComputed, record.ResultClaimed, record.ResultInconsistent} {
		if n := found[string(result)]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, result))
		}
	}
	if len(parts) == 0 {
		parts = append(parts, "none")
	}
	return fmt.Sprintf("  checks      %s\n", strings.Join(parts, ", ")) + failed.String(), found[string(record.ResultClaimed)], nil
}
